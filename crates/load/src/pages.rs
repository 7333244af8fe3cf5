//! Pages of the list of a group's objects, and what has to stand on them.

use bench::plan::Group;
use bench::schedule::following;

use crate::objects::ListedPage;
use crate::task::Task;

/// The list of a group.
pub struct Pages<'a> {
    group: &'a Group,
    prefix: String,
}

impl Pages<'_> {
    pub fn of(task: &Task, group_index: u32) -> Pages<'_> {
        let group = &task.groups[group_index as usize];
        Pages { group, prefix: [&task.prefix, ".", &group.name, "."].concat() }
    }

    /// The beginning of all names of the group's objects, and of no others.
    pub fn prefix(&self) -> String {
        self.prefix.clone()
    }

    pub fn max(&self) -> u32 {
        self.group.list_keys()
    }

    /// The error in a page of what stands behind object `after`; `None` if it is right. Where the group removes
    /// nothing, every object has to be there; else those that are have to be in order.
    pub fn wrong(&self, after: u64, page: &ListedPage) -> Option<String> {
        let told = |what: String| Some(format!("list behind {}{after}: {what}", self.prefix));
        let (count, max) = (page.objects.len(), self.max());
        if count > max as usize {
            return told(format!("{count} names on a page of {max}"));
        }
        let is_whole = self.group.operations.delete == 0;
        let mut next = following(after, self.group.objects);
        for (name, size) in &page.objects {
            let number = name.strip_prefix(&self.prefix).and_then(|number| number.parse::<u64>().ok());
            let Some(number) = number.filter(|number| *name == format!("{}{number}", self.prefix)) else {
                return told(format!("{name} is none of the group"));
            };
            if *size != self.group.object_bytes {
                return told(format!("{name} has {size} bytes instead of {}", self.group.object_bytes));
            }
            while !is_whole && next.is_some_and(|next| next != number) {
                next = next.and_then(|next| following(next, self.group.objects));
            }
            match next {
                Some(next) if next == number => {}
                Some(next) => return told(format!("{name} stands where {next} should")),
                None => return told(format!("{name} is not in order, or was never put")),
            }
            next = following(number, self.group.objects);
        }
        match (page.more, next) {
            (false, Some(next)) if is_whole => told(format!("it ends before {next}")),
            (true, _) if count == 0 => told("an empty page before further ones".into()),
            (true, None) => told("there is to be more behind the last object".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::plan::Plan;

    fn task(operations: &str, objects: u64) -> Task {
        let text = format!(
            r#"{{"version": 1, "name": "n", "seed": 3,
            "clusters": [{{"name": "m", "engine": "nacre", "configuration": "-", "s3": {{"endpoint": "http://h:1"}}}}],
            "pools": [{{"name": "p"}}],
            "workloads": [{{"name": "w", "pool": "p", "tool": "nacre-s3", "stop": {{"duration_s": 1}},
              "groups": [{{"name": "g", "object_bytes": 4096, "objects": {objects}, "operations": {operations},
                          "list_keys": 3, "instances": 1, "load": {{"closed": {{"queue_depth": 1}}}}}}]}}]}}"#
        );
        let plan = Plan::from_json(&text).unwrap();
        Task::new(plan.seed, "t", 0, &plan.workloads[0], 0)
    }

    fn page(numbers: &[u64], more: bool) -> ListedPage {
        let name = |number: &u64| (format!("nacre-bench.t.w.0.g.{number}"), 4096);
        ListedPage { objects: numbers.iter().map(name).collect(), more }
    }

    #[test]
    fn pages_are_in_order_and_hold_what_was_put() {
        let task = task(r#"{"list": 100}"#, 12);
        let pages = Pages::of(&task, 0);
        assert_eq!((pages.prefix().as_str(), pages.max()), ("nacre-bench.t.w.0.g.", 3));
        // 0 1 10 11 2 3 4 5 6 7 8 9
        for (after, numbers, more) in
            [(0, &[1, 10, 11][..], true), (11, &[2, 3], true), (7, &[8, 9], false), (9, &[], false)]
        {
            assert_eq!(pages.wrong(after, &page(numbers, more)), None, "{after} {numbers:?}");
        }
        for (after, numbers, more) in [
            (0, &[1, 11][..], true),
            (0, &[1, 2, 3], true),
            (0, &[10, 1, 11], true),
            (0, &[0, 1, 10], true),
            (0, &[1, 10, 11, 2], true),
            (0, &[1, 10, 11], false),
            (0, &[], true),
            (7, &[8, 9], true),
            (7, &[8, 9, 12], false),
            (0, &[1, 1, 10], true),
        ] {
            assert!(pages.wrong(after, &page(numbers, more)).is_some(), "{after} {numbers:?} {more}");
        }
        let mut other = page(&[1, 10, 11], true);
        other.objects[1].1 = 4095;
        assert!(pages.wrong(0, &other).unwrap().contains("4095 bytes"));
        for name in ["t.w.0.g.010", "t.w.0.g.", "t.w.0.h.10", "t.w.0.g.x"] {
            other.objects[1] = (format!("nacre-bench.{name}"), 4096);
            assert!(pages.wrong(0, &other).unwrap().contains("none of the group"), "{name}");
        }
    }

    #[test]
    fn removed_objects_may_be_missing() {
        let task = task(r#"{"list": 50, "delete": 50}"#, 12);
        let pages = Pages::of(&task, 0);
        for (numbers, more) in [(&[1, 11][..], true), (&[], false), (&[3, 9], false), (&[10, 2, 9], true)] {
            let is_last = numbers.last() == Some(&9);
            assert_eq!(pages.wrong(0, &page(numbers, more)).is_some(), is_last && more, "{numbers:?}");
        }
        for numbers in [&[11, 10][..], &[2, 2], &[0], &[12]] {
            assert!(pages.wrong(0, &page(numbers, false)).is_some(), "{numbers:?}");
        }
    }
}
