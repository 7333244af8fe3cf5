//! Hosts of their own on one machine.

use std::net::Ipv4Addr;
use std::process::Command;

/// A network namespace, joined to the one of the tests by a pair of virtual interfaces; dropped, it is removed.
///
/// It has the machine's processes, files and clocks; what it cannot reach but through its cable is everything else.
pub struct Host {
    name: String,
    number: u8,
}

/// Whether this machine lets us make hosts. Where it does not (it takes root, and a container may forbid it) a test says
/// so and ends: nothing that could be installed would change that. Without iproute2 it fails if `NACRE_REQUIRE_ORACLES` is 1.
pub fn hosts_can_be_made() -> bool {
    let required = std::env::var("NACRE_REQUIRE_ORACLES").is_ok_and(|v| v == "1");
    let version = ip(&["-V"]);
    assert!(version.is_ok() || !required, "iproute2 is not installed: {version:?}");
    let name = format!("nacre-probe-{}", std::process::id());
    let pair = ["-n", &name, "link", "add", "probe", "type", "veth", "peer", "name", "eborp"];
    let tried = ip(&["netns", "add", &name]).and_then(|()| ip(&pair)).and_then(|()| run(&mut within(&name, "true")));
    let _ = ip(&["netns", "del", &name]);
    if let Err(reason) = &tried {
        eprintln!("SKIPPED: network namespaces cannot be made (that takes iproute2 and root): {reason}");
    }
    tried.is_ok()
}

/// A command in a network namespace, which mounts nothing as `ip netns exec` does.
fn within(namespace: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg(program);
    command
}

impl Host {
    /// Host `number`, from 0. Panics if it cannot be made: see [`hosts_can_be_made`].
    #[track_caller]
    pub fn start(number: u8) -> Host {
        let host = Host { name: format!("nt{}-{number}", std::process::id()), number };
        let name = host.name.as_str();
        let (here, there) = (format!("{}/30", host.gateway()), format!("{}/30", host.address()));
        let gateway = host.gateway().to_string();
        let steps: [&[&str]; 8] = [
            &["netns", "add", name],
            &["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name],
            &["address", "add", &here, "dev", name],
            &["link", "set", name, "up"],
            &["-n", name, "address", "add", &there, "dev", "eth0"],
            &["-n", name, "link", "set", "lo", "up"],
            &["-n", name, "link", "set", "eth0", "up"],
            &["-n", name, "route", "add", "default", "via", &gateway],
        ];
        for step in steps {
            ip(step).unwrap_or_else(|reason| panic!("{reason}"));
        }
        host
    }

    /// The tests' own end of its cable, which all hosts reach.
    pub fn gateway(&self) -> Ipv4Addr {
        // A net of four addresses each, of those that nobody routes.
        Ipv4Addr::new(10, 231, (std::process::id() % 250) as u8, self.number * 4 + 1)
    }

    pub fn address(&self) -> Ipv4Addr {
        let [a, b, c, d] = self.gateway().octets();
        Ipv4Addr::new(a, b, c, d + 1)
    }

    /// A command that runs there.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        within(&self.name, program)
    }

    /// Pulls its cable: what was sent is lost, and nobody is told.
    #[track_caller]
    pub fn cut(&self) {
        ip(&["link", "set", &self.name, "down"]).unwrap_or_else(|reason| panic!("{reason}"));
    }

    #[track_caller]
    pub fn mend(&self) {
        ip(&["link", "set", &self.name, "up"]).unwrap_or_else(|reason| panic!("{reason}"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The pair goes with either end, but a namespace lives on while a process of it does.
        let _ = ip(&["link", "del", &self.name]);
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(args))
}

fn run(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&out.stderr).trim()))
    }
}
