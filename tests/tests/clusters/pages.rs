//! Pages in a browser: nothing that a checker of accessibility calls serious, in light and in dark.

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

/// Findings of the checker on a page, as `impact id targets`, most serious first.
fn findings(checker: &str, page: &str, folder: &Path, scheme: &str) -> Vec<String> {
    // The page's own rules allow scripts within it, so the checker runs as one. Its answer replaces the page.
    let ask = "axe.run().then(found => { const out = document.createElement('pre'); out.id = 'findings'; \
               out.textContent = JSON.stringify(found.violations.map(one => ({impact: one.impact, id: one.id, \
               targets: one.nodes.map(node => node.target.join(' '))}))); document.body.replaceChildren(out); });";
    let checked = page.replace("</body>", &format!("<script>{checker}</script><script>{ask}</script></body>"));
    let file = folder.join("checked.html");
    fs::write(&file, checked).unwrap();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom"]);
    browser.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    browser.arg(format!("--user-data-dir={}", folder.join("browser").display()));
    browser.arg(format!("file://{}", file.display()));
    let dom = run(browser, LIMIT).ok();
    let found = dom.split("<pre id=\"findings\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("the checker did not answer: {}", &dom[..dom.len().min(2000)]));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let found: Value = serde_json::from_str(&found).expect("findings are JSON");
    let line = |one: &Value| format!("{} {} {}", one["impact"].as_str().unwrap_or("-"), one["id"], one["targets"]);
    found.as_array().expect("a list").iter().map(line).collect()
}

fn is_serious(finding: &str) -> bool {
    finding.starts_with("serious") || finding.starts_with("critical")
}

/// The page of a run of a sweep, of the run beside itself, and of a plan.
fn pages(cluster: &TestCluster) -> Vec<PathBuf> {
    let out = cluster.scratch("sweep");
    let nacre = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args);
        run(command, LIMIT).ok()
    };
    let text = |path: &Path| path.to_str().expect("plain path").to_owned();
    let at = format!("nacre={}", cluster.dir().display());
    // Whole objects of 4 MiB, in pools of two copies only. Sixteen at once take a busy machine a second.
    let times = ["--seconds", "2", "--only", "write-r2", "--only", "read-r2"];
    let run = ["bench", "run", "micron-7450-ec", "--scale", "laptop", "--cluster", &at, "--out", &text(&out)];
    nacre(&[&run[..], &times[..]].concat());
    let beside = cluster.scratch("beside.html");
    nacre(&["bench", "report", &text(&out), "--against", &text(&out), "--html", &text(&beside)]);
    let plan = cluster.scratch("plan.html");
    nacre(&["plan", "--usable-tb", "500", "--html", &text(&plan)]);
    vec![out.join("report.html"), beside, plan]
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
        assert!(html.contains("<svg") || html.contains("type=\"range\""), "{}", page.display());
        for (scheme, value) in SCHEMES {
            let found = findings(&checker, &html, &folder, value);
            let serious: Vec<&String> = found.iter().filter(|one| is_serious(one)).collect();
            assert!(serious.is_empty(), "{} in {scheme}: {serious:#?}", page.display());
        }
        // A page with a fault: a slider that nothing names, and words that are hardly seen.
        let faulty = html.replace(
            "<main id=\"main\">",
            "<main id=\"main\"><input type=\"range\"><p style=\"color:#888;background:#999\">hardly seen</p>",
        );
        let found = findings(&checker, &faulty, &folder, "1");
        assert_eq!(found.iter().filter(|one| is_serious(one)).count(), 2, "{found:#?}");
    }
    let report = fs::read_to_string(cluster.scratch("sweep").join("report.html")).unwrap();
    assert!(report.contains("operating point"), "a sweep has operating points");
}
