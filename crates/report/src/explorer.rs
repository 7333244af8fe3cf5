//! Values that depend on choices: a slider for each choice on a page in HTML, the chosen values elsewhere.
//!
//! Every combination is worked out beforehand by whoever builds the page. The script of the page only looks up, so what
//! it shows cannot differ from what the program says.

use serde::Serialize;

/// A table of values for each combination of choices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explorer {
    /// Name for links: letters, digits and hyphens.
    pub name: String,
    pub caption: String,
    controls: Vec<Control>,
    /// Names of the values.
    rows: Vec<String>,
    /// Values for each combination; the last control's choice changes fastest.
    values: Vec<Vec<String>>,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Control {
    pub label: String,
    /// At least one.
    pub choices: Vec<String>,
    /// Index of the choice that is made at first.
    pub chosen: usize,
}

impl Explorer {
    /// An explorer. `value` gives, for the indices of the controls' choices, a value for each of `rows`.
    ///
    /// Panics if a control has no such choice as it has chosen, or if `value` gives too few or too many.
    pub fn new(
        name: impl Into<String>,
        caption: impl Into<String>,
        controls: Vec<Control>,
        rows: Vec<String>,
        mut value: impl FnMut(&[usize]) -> Vec<String>,
    ) -> Explorer {
        assert!(controls.iter().all(|control| control.chosen < control.choices.len()), "a choice that does not exist");
        let total: usize = controls.iter().map(|control| control.choices.len()).product();
        let mut values = Vec::with_capacity(total);
        let mut at = vec![0; controls.len()];
        for _ in 0..total {
            let of_choice = value(&at);
            assert_eq!(of_choice.len(), rows.len(), "a value for each row");
            values.push(of_choice);
            for (index, control) in at.iter_mut().zip(&controls).rev() {
                *index += 1;
                if *index < control.choices.len() {
                    break;
                }
                *index = 0;
            }
        }
        Explorer { name: name.into(), caption: caption.into(), controls, rows, values }
    }

    pub fn controls(&self) -> &[Control] {
        &self.controls
    }

    /// Names and values of the choices that are made at first.
    pub fn chosen(&self) -> impl Iterator<Item = (&str, &str)> {
        let index = self.controls.iter().fold(0, |index, control| index * control.choices.len() + control.chosen);
        self.rows.iter().zip(&self.values[index]).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Choices and values for the page's script. It may stand in a `<script>` element.
    pub(crate) fn to_script_json(&self) -> String {
        let data = serde_json::json!({
            "choices": self.controls.iter().map(|control| &control.choices).collect::<Vec<_>>(),
            "values": self.values,
        });
        // Nothing in the data can end the element or begin a comment.
        data.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Explorer {
        let control = |label: &str, choices: &[&str], chosen| Control {
            label: label.into(),
            choices: choices.iter().map(ToString::to_string).collect(),
            chosen,
        };
        let controls = vec![control("a", &["0", "1", "2"], 2), control("b", &["0", "1"], 1)];
        Explorer::new("e", "Sums.", controls, vec!["sum".into()], |at| vec![format!("</script>{}", at[0] * 10 + at[1])])
    }

    #[test]
    fn the_last_choice_changes_fastest() {
        let explorer = sample();
        let values: Vec<&str> = explorer.values.iter().map(|value| value[0].trim_start_matches("</script>")).collect();
        assert_eq!(values, ["0", "1", "10", "11", "20", "21"]);
        assert_eq!(explorer.chosen().collect::<Vec<_>>(), [("sum", "</script>21")]);
        assert!(!explorer.to_script_json().contains('<'));
    }
}
