//! Hosts of their own on one machine.

use std::net::Ipv4Addr;
use std::process::Command;

/// A network namespace, joined to the one of the tests by a pair of virtual interfaces; dropped, it is removed.
///
/// It has the machine's processes, files and clocks; what it cannot reach but through its cable is everything else.
pub struct Host {
    name: String,
    gateway: Ipv4Addr,
    address: Ipv4Addr,
}

/// A bridge of the tests' namespace, into which hosts' cables are plugged: they reach each other through it. Dropped,
/// it is removed.
pub struct Switch {
    name: String,
}

/// Tells if this machine lets us make hosts. Where it does not (it takes root, and a container may forbid it) a test
/// says so and ends: nothing that could be installed would change that. Without iproute2 it fails if
/// `NACRE_REQUIRE_ORACLES` is 1.
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
        // A net of four addresses each.
        let host = Host::named(number, own_address(number * 4 + 1), own_address(number * 4 + 2));
        host.wire(30, &["address", "add", &format!("{}/30", host.gateway), "dev", &host.name]);
        host
    }

    fn named(number: u8, gateway: Ipv4Addr, address: Ipv4Addr) -> Host {
        Host { name: format!("nt{}-{number}", std::process::id()), gateway, address }
    }

    /// Makes it and its cable; `this_end`: what becomes of the tests' end.
    #[track_caller]
    fn wire(&self, prefix: u8, this_end: &[&str]) {
        let name = self.name.as_str();
        let (there, gateway) = (format!("{}/{prefix}", self.address), self.gateway.to_string());
        must(&["netns", "add", name]);
        must(&["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name]);
        must(this_end);
        must(&["link", "set", name, "up"]);
        must(&["-n", name, "address", "add", &there, "dev", "eth0"]);
        must(&["-n", name, "link", "set", "lo", "up"]);
        must(&["-n", name, "link", "set", "eth0", "up"]);
        must(&["-n", name, "route", "add", "default", "via", &gateway]);
    }

    /// The tests' own end of its cable, or of the switch, which all hosts reach.
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }

    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command that runs there.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        within(&self.name, program)
    }

    /// Pulls its cable: what was sent is lost, and nobody is told.
    #[track_caller]
    pub fn cut(&self) {
        must(&["link", "set", &self.name, "down"]);
    }

    #[track_caller]
    pub fn mend(&self) {
        must(&["link", "set", &self.name, "up"]);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The pair goes with either end, but a namespace lives on while a process of it does.
        let _ = ip(&["link", "del", &self.name]);
        let _ = ip(&["netns", "del", &self.name]);
    }
}

impl Switch {
    /// Panics if it cannot be made: see [`hosts_can_be_made`].
    #[track_caller]
    pub fn start() -> Switch {
        let switch = Switch { name: format!("sw{}", std::process::id()) };
        must(&["link", "add", &switch.name, "type", "bridge"]);
        must(&["address", "add", &format!("{}/24", switch.address()), "dev", &switch.name]);
        must(&["link", "set", &switch.name, "up"]);
        switch
    }

    /// The tests' own address, which all hosts reach.
    pub fn address(&self) -> Ipv4Addr {
        own_address(1)
    }

    /// Host `number`, from 0, at the end of a cable.
    #[track_caller]
    pub fn plug(&self, number: u8) -> Host {
        let host = Host::named(number, self.address(), own_address(number + 2));
        host.wire(24, &["link", "set", &host.name, "master", &self.name]);
        host
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = ip(&["link", "del", &self.name]);
    }
}

/// One of the addresses of this process, which nobody routes.
fn own_address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 231, (std::process::id() % 250) as u8, last)
}

fn ip(args: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(args))
}

#[track_caller]
fn must(args: &[&str]) {
    ip(args).unwrap_or_else(|reason| panic!("{reason}"));
}

fn run(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&out.stderr).trim()))
    }
}
