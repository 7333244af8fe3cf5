//! Pages in a browser: nothing that a checker of accessibility calls serious, in light and in dark; colours of the
//! scheme; nothing that is asked for from anywhere; scripts without faults; sliders that change values.

use cluster_tests::{TestCluster, binary, clients_are_here, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
/// Values of Chromium's setting for the colour scheme.
const SCHEMES: [(&str, &str); 2] = [("dark", "0"), ("light", "1")];

/// The checker's program text, from its package, which the tests install.
fn checker(folder: &Path) -> String {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(folder);
    run(
        {
            npm.arg("axe-core@4");
            npm
        },
        LIMIT,
    )
    .ok();
    fs::read_to_string(folder.join("node_modules/axe-core/axe.min.js")).expect("the checker's program")
}

/// A page as a browser found it.
struct Seen {
    /// Violations that the checker names, as `impact id targets`, most serious first.
    findings: Vec<String>,
    /// Addresses that the page asked for, or that its own rules kept it from asking for; faults of its scripts.
    faults: Vec<String>,
    /// Sum of red, green and blue of what is behind the text, each 0 to 255.
    brightness: u64,
    /// Values of its first explorer: at first, and with the first slider at its end; `None` without an explorer.
    explored: Option<[String; 2]>,
}

impl Seen {
    fn serious(&self) -> Vec<&String> {
        let is_serious = |one: &&String| one.starts_with("serious") || one.starts_with("critical");
        self.findings.iter().filter(is_serious).collect()
    }
}

/// Notes from the page's begin on what goes wrong on it.
const WATCH: &str = "window.faults = []; \
    addEventListener('error', e => faults.push('fault: ' + (e.message || e.target.outerHTML)), true); \
    addEventListener('securitypolicyviolation', e => faults.push('kept from ' + e.blockedURI));";
/// Asks the page and the checker. The answer replaces the page.
const ASK: &str = "addEventListener('load', async () => { \
    const colour = getComputedStyle(document.documentElement).backgroundColor; \
    const body = getComputedStyle(document.body).backgroundColor; \
    const explorer = document.querySelector('.explorer'); \
    const values = () => explorer.querySelector('tbody').textContent; \
    const explored = explorer && [values()]; \
    const found = await axe.run(); \
    if (explorer) { const slider = explorer.querySelector('input'); \
      slider.value = Number(slider.value) === Number(slider.max) ? slider.min : slider.max; \
      slider.dispatchEvent(new Event('input')); explored.push(values()); } \
    const out = document.createElement('pre'); out.id = 'seen'; \
    out.textContent = JSON.stringify({ \
      findings: found.violations.map(one => ({impact: one.impact, id: one.id, \
        targets: one.nodes.map(node => node.target.join(' '))})), \
      faults: faults.concat(performance.getEntriesByType('resource').map(one => 'asked for ' + one.name)), \
      colours: [body, colour], explored}); \
    document.body.replaceChildren(out); });";

/// Opens a page in the browser. `scheme`: Chromium's number of a colour scheme.
fn see(checker: &str, page: &str, folder: &Path, scheme: &str) -> Seen {
    // The page's own rules allow scripts within it, so these run as such.
    let watched = page.replacen("<head>", &format!("<head><script>{WATCH}</script>"), 1);
    let checked = watched.replace("</body>", &format!("<script>{checker}</script><script>{ASK}</script></body>"));
    let file = folder.join("checked.html");
    fs::write(&file, checked).unwrap();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom"]);
    browser.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    browser.arg(format!("--user-data-dir={}", folder.join("browser").display()));
    browser.arg(format!("file://{}", file.display()));
    let dom = run(browser, LIMIT).ok();
    let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let seen = seen.unwrap_or_else(|| panic!("the page did not answer: {}", &dom[..dom.len().min(2000)]));
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen: Value = serde_json::from_str(&seen).expect("the answer is JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let words = |value: &Value| value.as_str().expect("text").to_owned();
    let line = |one: &Value| format!("{} {} {}", one["impact"].as_str().unwrap_or("-"), one["id"], one["targets"]);
    Seen {
        findings: list(&seen["findings"]).iter().map(line).collect(),
        faults: list(&seen["faults"]).iter().map(words).collect(),
        brightness: brightness(&list(&seen["colours"]).iter().map(words).collect::<Vec<_>>()),
        explored: seen["explored"].as_array().map(|pair| [0, 1].map(|at| words(&pair[at]))),
    }
}

/// The sum of the first colour that hides what is behind it: `rgb(255, 255, 255)`.
fn brightness(colours: &[String]) -> u64 {
    let seen = colours.iter().find(|colour| !colour.starts_with("rgba")).unwrap_or_else(|| panic!("none: {colours:?}"));
    let digits = seen.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|number| number.parse::<u64>().ok()).sum()
}

/// The page of a run of a sweep, of the run beside itself, of a plan, and of the cluster.
fn pages(cluster: &TestCluster) -> Vec<PathBuf> {
    let out = cluster.scratch("sweep");
    let nacre = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args);
        run(command, LIMIT).ok()
    };
    let text = |path: &Path| path.to_str().expect("plain path").to_owned();
    let at = format!("nacre={}", cluster.dir().display());
    // Whole objects of 4 MiB, in pools of two copies only. Thirty-two at once take a busy machine three seconds.
    let times = ["--seconds", "4", "--data", "8MiB", "--only", "write-r2", "--only", "read-r2"];
    let run = ["bench", "run", "micron-7450-ec", "--scale", "laptop", "--cluster", &at, "--out", &text(&out)];
    nacre(&[&run[..], &times[..]].concat());
    let beside = cluster.scratch("beside.html");
    nacre(&["bench", "report", &text(&out), "--against", &text(&out), "--html", &text(&beside)]);
    let plan = cluster.scratch("plan.html");
    nacre(&["plan", "--usable-tb", "500", "--html", &text(&plan)]);
    let survey = cluster.scratch("survey.html");
    nacre(&["report", "--conf", &text(&cluster.conf()), "--html", &text(&survey)]);
    vec![out.join("report.html"), beside, plan, survey]
}

#[test]
fn nothing_serious_is_found() {
    if !clients_are_here(&["chromium", "npm"]) {
        return;
    }
    let cluster = TestCluster::start("pages", 3);
    let folder = cluster.scratch("axe");
    fs::create_dir_all(&folder).unwrap();
    let checker = checker(&folder);
    for page in pages(&cluster) {
        let html = fs::read_to_string(&page).unwrap();
        assert!(html.len() < 1_500_000, "{}: {} bytes", page.display(), html.len());
        let is_plan = html.contains("type=\"range\"");
        let [dark, light] = SCHEMES.map(|(scheme, value)| {
            let seen = see(&checker, &html, &folder, value);
            assert!(seen.serious().is_empty(), "{} in {scheme}: {:#?}", page.display(), seen.findings);
            assert!(seen.faults.is_empty(), "{} in {scheme}: {:#?}", page.display(), seen.faults);
            assert_eq!(seen.explored.is_some(), is_plan, "{}", page.display());
            if let Some([first, moved]) = &seen.explored {
                assert!(!first.is_empty() && first != moved, "a slider changes values: {first}");
            }
            seen.brightness
        });
        assert!(dark < 200 && light > 600, "{}: dark {dark}, light {light}", page.display());
    }
    // A page with faults: a slider that nothing names, words that are hardly seen, a picture from elsewhere, a script
    // that fails.
    let html = fs::read_to_string(cluster.scratch("plan.html")).unwrap();
    let faulty = html.replace(
        "<main id=\"main\">",
        "<main id=\"main\"><input type=\"range\"><p style=\"color:#888;background:#999\">hardly seen</p>\
         <img alt=\"\" src=\"http://127.0.0.1:9/picture.png\"><script>nowhere();</script>",
    );
    let seen = see(&checker, &faulty, &folder, "1");
    assert_eq!(seen.serious().len(), 2, "{:#?}", seen.findings);
    for words in ["127.0.0.1:9/picture.png", "nowhere is not defined"] {
        assert!(seen.faults.iter().any(|fault| fault.contains(words)), "{words}: {:#?}", seen.faults);
    }
    let report = fs::read_to_string(cluster.scratch("sweep").join("report.html")).unwrap();
    assert!(report.contains("operating point"), "a sweep has operating points");
}
