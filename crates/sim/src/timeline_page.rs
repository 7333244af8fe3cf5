//! The timeline as a page for people: a row for each line, with switches for processes and a search.

use std::collections::BTreeSet;
use std::fmt::Write;

const HEAD: &str = "<!doctype html><meta charset=utf-8><title>Timeline</title><style>\
body{font:13px/1.4 ui-monospace,monospace;margin:0}\
header{position:sticky;top:0;background:#fff;border-bottom:1px solid #bbb;padding:8px;font-family:system-ui}\
label{margin-right:10px}table{border-collapse:collapse}td{padding:0 8px;vertical-align:top;white-space:pre-wrap}\
td:first-child{color:#777}tr.world{background:#fff3c4}tr.error{background:#fde0dc}tr.hidden{display:none}</style>";

const SCRIPT: &str = "<script>const rows=[...document.querySelectorAll('tr')],q=document.querySelector('#q'),\
boxes=[...document.querySelectorAll('header input[type=checkbox]')];\
function show(){const off=new Set(boxes.filter(b=>!b.checked).map(b=>b.value)),words=q.value.toLowerCase();\
for(const r of rows)r.classList.toggle('hidden',off.has(r.dataset.who)||words!==''&&!r.textContent.toLowerCase().includes(words))}\
boxes.forEach(b=>b.onchange=show);q.oninput=show</script>";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Time, process and text of a line.
fn parts(line: &str) -> (&str, &str, &str) {
    let (time, rest) = line.trim_start().split_once(' ').unwrap_or((line, ""));
    let (who, words) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    (time, who, words)
}

/// A whole page. `title` names the run, `verdict` its result.
pub(crate) fn page(title: &str, verdict: &str, lines: &[String]) -> String {
    let who: BTreeSet<&str> = lines.iter().map(|line| parts(line).1).collect();
    let mut html = format!("{HEAD}<header><b>{}</b><br>{}<br>", escaped(title), escaped(verdict));
    for who in who {
        let name = if who == "****" { "the world" } else { who };
        let (who, name) = (escaped(who), escaped(name));
        // Writing to a string cannot fail.
        let _ = write!(html, "<label><input type=checkbox checked value=\"{who}\">{name}</label>");
    }
    html += "<br><input id=q placeholder=\"words to look for\" size=60></header><table>";
    for line in lines {
        let (time, who, words) = parts(line);
        let class = match who {
            "****" => " class=world",
            _ if words.starts_with("ERROR") => " class=error",
            _ => "",
        };
        let (who, words) = (escaped(who), escaped(words));
        let _ = writeln!(html, "<tr{class} data-who=\"{who}\"><td>{time}<td>{who}<td>{words}");
    }
    html + "</table>" + SCRIPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rows_and_nothing_gets_out_of_them() {
        let lines =
            ["    1.500000     osd.3 has <b> & \"c\"", "    2.000000      **** osd.3 is killed"].map(str::to_owned);
        let page = page("seed 1", "fails: a < b", &lines);
        assert!(page.contains("<tr data-who=\"osd.3\"><td>1.500000<td>osd.3<td>has &lt;b&gt; &amp; &quot;c&quot;\n"));
        assert!(page.contains("<tr class=world data-who=\"****\"><td>2.000000<td>****<td>osd.3 is killed\n"));
        assert!(page.contains("fails: a &lt; b") && page.contains("value=\"osd.3\""));
    }
}
