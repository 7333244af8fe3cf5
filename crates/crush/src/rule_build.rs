//! Making and removing rules.

use crate::{BuildError, CrushMap, Rule, RuleKind, Step, op};

/// The most rules a map can hold: pools name them with 8 bits.
const RULES_MAX: usize = 256;

impl CrushMap {
    /// Adds the rule for replicated pools that puts each replica into another bucket of type `failure_domain`
    /// below `root`, on devices of `class` if one is given. Returns its number.
    pub fn create_replicated_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
    ) -> Result<u32, BuildError> {
        let (root, kind) = self.rule_target(name, root, failure_domain, class)?;
        let choose = if kind == 0 { op::CHOOSE_FIRSTN } else { op::CHOOSELEAF_FIRSTN };
        let steps = vec![Step::take(root), Step::new(choose, 0, kind), Step::EMIT];
        self.add_rule(name, RuleKind::REPLICATED, 1, 10, steps)
    }

    /// Adds the rule for erasure-coded pools of up to `size_max` shards, each in another bucket of type
    /// `failure_domain`. Returns its number.
    pub fn create_erasure_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
        size_max: u8,
    ) -> Result<u32, BuildError> {
        let (root, kind) = self.rule_target(name, root, failure_domain, class)?;
        let choose = if kind == 0 { op::CHOOSE_INDEP } else { op::CHOOSELEAF_INDEP };
        let steps = vec![
            Step::new(op::SET_CHOOSELEAF_TRIES, 5, 0),
            Step::new(op::SET_CHOOSE_TRIES, 100, 0),
            Step::take(root),
            Step::new(choose, 0, kind),
            Step::EMIT,
        ];
        self.add_rule(name, RuleKind::ERASURE, 3, size_max, steps)
    }

    /// Adds a rule from its steps in the lowest free slot. Returns its number.
    pub fn add_rule(
        &mut self,
        name: &str,
        kind: RuleKind,
        min_size: u8,
        max_size: u8,
        steps: Vec<Step>,
    ) -> Result<u32, BuildError> {
        crate::build::check_name(name)?;
        if self.rule_by_name(name).is_some() {
            return Err(BuildError::RuleExists(name.to_owned()));
        }
        let number = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        if number >= RULES_MAX {
            return Err(BuildError::TooManyRules(RULES_MAX));
        }
        if number == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[number] = Some(Rule { ruleset: number as u8, kind, min_size, max_size, steps });
        self.rule_names.insert(number as i32, name.to_owned());
        Ok(number as u32)
    }

    /// Removes a rule. The caller has to check that no pool uses it.
    pub fn remove_rule(&mut self, name: &str) -> Result<(), BuildError> {
        let number = self.rule_by_name(name).ok_or_else(|| BuildError::NoRule(name.to_owned()))?;
        self.change(|map| {
            map.rules[number as usize] = None;
            map.rule_names.remove(&(number as i32));
            Ok(())
        })
    }

    pub fn rename_rule(&mut self, from: &str, to: &str) -> Result<(), BuildError> {
        crate::build::check_name(to)?;
        let number = self.rule_by_name(from).ok_or_else(|| BuildError::NoRule(from.to_owned()))?;
        if self.rule_by_name(to).is_some() {
            return Err(BuildError::RuleExists(to.to_owned()));
        }
        self.rule_names.insert(number as i32, to.to_owned());
        Ok(())
    }

    /// Returns the item that a rule starts from and the number of its failure domain's type.
    fn rule_target(
        &self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
    ) -> Result<(i32, i32), BuildError> {
        if self.rule_by_name(name).is_some() {
            return Err(BuildError::RuleExists(name.to_owned()));
        }
        let mut item = self.id(root).ok_or_else(|| BuildError::NoItem(root.to_owned()))?;
        let kind = match failure_domain {
            "" => 0,
            _ => self.type_id(failure_domain).ok_or_else(|| BuildError::NoType(failure_domain.to_owned()))?,
        };
        if let Some(class) = class {
            if self.class_id(class).is_none() {
                return Err(BuildError::NoClass(class.to_owned()));
            }
            let empty = || BuildError::EmptyClass { root: root.to_owned(), class: class.to_owned() };
            item = self.shadow(item, class).ok_or_else(empty)?;
        }
        Ok((item, kind.into()))
    }
}
