use super::*;
use proptest::prelude::*;

fn words(text: &str) -> Result<Profile, ProfileError> {
    Profile::from_words(text.split_whitespace())
}

fn settings(text: &str) -> Result<Profile, ProfileError> {
    let pairs = text.split_whitespace().map(|word| word.split_once('=').unwrap());
    Profile::from_settings(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

fn check(profile: Result<Profile, ProfileError>, technique: Technique, k: usize, m: usize, kept: &str) {
    let profile = profile.unwrap();
    assert_eq!((profile.technique(), profile.k(), profile.m()), (technique, k, m));
    let pairs: Vec<String> = profile.settings().iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(pairs.join(" "), kept);
    let again = Profile::from_settings(profile.settings().clone()).unwrap();
    assert_eq!(again, profile, "a profile that has its defaults stays as it is");
    let code = profile.code();
    assert_eq!((code.technique(), code.k(), code.m()), (technique, k, m));
}

/// Profiles as `ceph osd erasure-code-profile get` of Ceph 16.2.15 shows them.
#[test]
fn operators_get_cephs_defaults() {
    check(
        words(""),
        Technique::JerasureVandermonde,
        2,
        2,
        "crush-device-class= crush-failure-domain=host crush-root=default jerasure-per-chunk-alignment=false k=2 m=2 \
         plugin=jerasure technique=reed_sol_van w=8",
    );
    check(
        words("k=4 m=2 crush-failure-domain=osd crush-device-class=ssd"),
        Technique::JerasureVandermonde,
        4,
        2,
        "crush-device-class=ssd crush-failure-domain=osd crush-root=default jerasure-per-chunk-alignment=false k=4 m=2 \
         plugin=jerasure technique=reed_sol_van w=8",
    );
    check(
        words("plugin=jerasure technique=reed_sol_r6_op k=6"),
        Technique::JerasureRaid6,
        6,
        2,
        "crush-device-class= crush-failure-domain=host crush-root=default k=6 m=2 plugin=jerasure \
         technique=reed_sol_r6_op w=8",
    );
    // A profile with another plugin than the default's keeps none of the default's settings.
    check(
        words("plugin=isa stripe_unit=64K new-key=value"),
        Technique::IsaVandermonde,
        7,
        3,
        "crush-device-class= crush-failure-domain=host crush-root=default k=7 m=3 new-key=value plugin=isa \
         stripe_unit=64K \
         technique=reed_sol_van",
    );
}

#[test]
fn plugins_have_their_own_defaults() {
    let profile = settings("plugin=jerasure technique=reed_sol_van k= m=").unwrap();
    assert_eq!((profile.k(), profile.m(), profile.setting("w")), (7, 3, "8"));
    let profile = settings("plugin=isa technique=cauchy k=10 m=4").unwrap();
    assert_eq!((profile.technique(), profile.k(), profile.m()), (Technique::IsaCauchy, 10, 4));
    assert_eq!((profile.setting("crush-root"), profile.setting("w")), ("default", ""));
}

#[test]
fn what_is_not_possible_is_refused_with_what_is() {
    let check = |text: &str, sentence: &str| assert_eq!(words(text).unwrap_err().to_string(), sentence, "{text}");
    for plugin in ["lrc", "shec", "clay", ""] {
        let sentence = format!("erasure code plugin '{plugin}' is not supported; use plugin=jerasure or plugin=isa");
        check(&format!("plugin={plugin} k=4 m=2"), &sentence);
    }
    for technique in ["cauchy_orig", "cauchy_good", "liberation", "blaum_roth", "liber8tion", "cauchy"] {
        let sentence = format!(
            "technique '{technique}' of plugin jerasure is not supported; use technique=reed_sol_van, or \
             technique=reed_sol_r6_op"
        );
        check(&format!("technique={technique}"), &sentence);
    }
    check(
        "plugin=isa technique=reed_sol_r6_op",
        "technique 'reed_sol_r6_op' of plugin isa is not supported; use technique=reed_sol_van, or technique=cauchy",
    );
    check("w=16", "w=16 is not supported; use w=8, which every k and m here can have");
    check("k=two", "k=two is not a whole number");
    check("m=-1", "m=-1 is not a whole number");
    check("k=1", "k=1 must be at least 2");
    check("k=40 m=30", "k=40 and m=30 make 70 shards, more than 64");
    check(
        "mapping=DD_D_ k=3 m=2",
        "a profile with 'mapping' is not supported; data shards come first, then parity shards",
    );
    check("ruleset-root=default", "property 'ruleset-root' is no longer supported; try 'crush-root' instead");
    check("=4", "'=4' is not of the form key=value");
    check("stripe_unit=4X", "could not parse stripe_unit '4X': give bytes, or a number with K or M");
    check("stripe_unit=0", "could not parse stripe_unit '0': give bytes, or a number with K or M");
    check("stripe_unit=4100", "stripe_unit 4100 does not match ec profile alignment. Would be padded to 4128");
    check("k=8 stripe_unit=1G", "stripe_unit 1073741824 is too large for k=8: a stripe must be shorter than 4 GiB");
    assert_eq!(settings("k=2 m=1").unwrap_err(), ProfileError::NoPlugin);
    let sentence =
        "technique '' of plugin jerasure is not supported; use technique=reed_sol_van, or technique=reed_sol_r6_op";
    assert_eq!(settings("plugin=jerasure k=2 m=1").unwrap_err().to_string(), sentence);
}

#[test]
fn stripe_units() {
    let unit = |text: &str, default| words(text).unwrap().layout(default).unwrap().unit_bytes();
    assert_eq!(unit("k=4", 4096), 4096);
    assert_eq!(unit("k=4", 65536), 65536);
    assert_eq!(unit("k=4 stripe_unit=16Ki", 4096), 16384);
    assert_eq!(unit("k=4 stripe_unit=8192B", 4096), 8192);
    assert_eq!(unit("k=4 stripe_unit=1M", 4096), 1 << 20);
    assert_eq!(unit("k=4 stripe_unit=4KB", 65536), 4096);
    // A default that does not fit is rounded up, as by Ceph's monitor.
    assert_eq!(unit("k=3", 100), 128);
    assert_eq!(words("k=4").unwrap().layout(4096).unwrap().stripe_bytes(), 16384);
}

proptest! {
    #[test]
    fn no_words_do_harm(
        words in prop::collection::vec(
            "(k|m|w|plugin|technique|stripe_unit|[a-z=-]{0,5})=?[a-z0-9_KM]{0,6}",
            0..6,
        )
    ) {
        if let Ok(profile) = Profile::from_words(words.iter().map(String::as_str)) {
            let layout = profile.layout(STRIPE_UNIT_DEFAULT_BYTES).unwrap();
            prop_assert_eq!(layout.k(), profile.code().k());
        }
    }
}
