//! Valid and invalid profiles: what is parsed, and the text of errors. Start with
//! [`errors_have_position_and_cause`].

use super::*;

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse("p.toml", text)
}

#[test]
fn errors_have_position_and_cause() {
    for (text, expected) in [
        (
            "",
            "p.toml: no streams; a stream begins with [[stream]], such as\n[[stream]]\nsize = 64",
        ),
        (
            "[[stream]]\nsise = 64",
            "p.toml:2:1: unknown key `sise`; did you mean `size`?",
        ),
        (
            "abuot = 'x'\n[[stream]]",
            "p.toml:1:1: unknown key `abuot`; did you mean `about`?",
        ),
        (
            "[stream]\nsize = 64",
            "p.toml:1:1: expected a list: its tables begin with the name in double brackets, as in [[stream]]",
        ),
        (
            "[[stream]]\nsize = ",
            "p.toml:2:8: string values must be quoted, expected literal string",
        ),
        (
            "[[stream]]\nsize = 0",
            "p.toml:2:8: a frame has 64 to 65535 bytes, including the FCS (what pkt-gen calls 60 is 64 here), not 0",
        ),
        (
            "[[stream]]\nsize = 70000",
            "p.toml:2:8: a frame has 64 to 65535 bytes, including the FCS (what pkt-gen calls 60 is 64 here), not 70000",
        ),
        (
            "[[stream]]\nsize = 'imx'",
            "p.toml:2:8: `imx` is not a frame size or mix: use a size such as 64, a genome (RFC 6985) such as 7a4dg, or one of \
             imix, imix570, imix6, imix-trexbench, imix512, bimodal, ipsec-imix, tcp-imix, standard-imix, ipv6-imix; as a \
             genome, character 2: `m` is none of the letters a to j (64 to 16000 bytes), z, and A to Z",
        ),
        (
            "[[stream]]\nsize = { from = 128, to = 64 }",
            "p.toml:2:8: from = 128 is above to = 64",
        ),
        (
            "[[stream]]\nlayers = ['ipv4', 'ucp']",
            "p.toml:2:19: unknown name `ucp`; did you mean `udp`?",
        ),
        (
            "[[stream]]\nlayers = ['ipv4', { udp = { source = 1 } }]",
            "p.toml:2:29: unknown key `source`; did you mean `source-port`?",
        ),
        (
            "[[stream]]\nlayers = [{ ipv4 = { ttl = 300 } }]",
            "p.toml:2:28: found integer `300`, expected a number from 0 to 255",
        ),
        (
            "[[stream]]\nlayers = [{ ipv4 = { source = '1.2.3' } }]",
            "p.toml:2:31: invalid IPv4 address syntax",
        ),
        (
            "[[stream]]\nlayers = [{ vlan = { id = 4096 } }]",
            "p.toml:2:27: 4096 is above the maximum, 4095",
        ),
        (
            "[[stream]]\nlayers = [{ vlan = {}, udp = {} }]",
            "p.toml:2:11: two layers in one pair of braces; each needs its own",
        ),
        (
            "[[stream]]\nrate = '0pps'",
            "p.toml:2:8: `0pps` is not a load: it must be above 0 and at most 1000 G",
        ),
        (
            "[[stream]]\nrate = '0%'",
            "p.toml:2:8: `0%` is not a load: a share of the line rate must be above 0% and at most 1000%",
        ),
        (
            "[[stream]]\nrate = 1000",
            "p.toml:2:8: found integer `1000`, expected a load in quotes, such as \"1kpps\" or \"10%\"",
        ),
        (
            "[[stream]]\nrate = '1kpps'\nshare = 2",
            "p.toml:3:9: use either rate or share, not both",
        ),
        (
            "[[stream]]\nburst = 1\nnext = 'b'",
            "p.toml:3:8: next: there is no stream `b`; did you mean `1`?",
        ),
        (
            "[[stream]]\nname = 'first'\nburst = 1\nnext = 'frist'",
            "p.toml:4:8: next: there is no stream `frist`; did you mean `first`?",
        ),
        (
            "[[stream]]\nnext = '1'",
            "p.toml:2:8: this stream never ends, so nothing can follow it; use burst, or bursts with a count",
        ),
        (
            "[[stream]]\nburst = 1000000000000001",
            "p.toml:2:9: more than 10^15 frames; omit burst for an endless stream",
        ),
        (
            "[[stream]]\nbursts = { frames = 9223372036854775807, pause = '1ms', count = 9223372036854775807 }",
            "p.toml:2:1: more than 10^15 frames; omit count for an endless stream",
        ),
        (
            "[[stream]]\nburst = 0",
            "p.toml:2:9: a burst of 0 frames; omit the stream instead",
        ),
        (
            "[[stream]]\nwaits = true",
            "p.toml:1:3: all streams wait for another one to end, so none ever starts; set waits = false for one",
        ),
        (
            "[[stream]]\nname = 'a'\n[[stream]]\nname = 'a'",
            "p.toml:4:8: stream a: two streams are called `a`",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4.src', count = 2 }]",
            "p.toml:2:19: there is no field `ipv4.src`; did you mean `ipv4.source`?",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4.ttl' }]",
            "p.toml:2:19: values are missing: use from and to, from and count, or values",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4.ttl', from = 'x', count = 2 }]",
            "p.toml:2:38: `x` is neither a number nor an IP or MAC address",
        ),
        (
            "[[stream]]\nvary = [{ at = 26, count = 2 }]",
            "p.toml:2:16: at requires bytes: 1, 2, 4 or 8",
        ),
        (
            "[[stream]]\nvary = [\n  { field = 'ipv4.source', count = 1000000 },\n  { field = 'udp.source-port', count = 60000 },\n]",
            "p.toml:2:1: 60000000000 flows; a stream has at most 4294967295",
        ),
        (
            "[[stream]]\nflows = 2\nvary = [{ field = 'ipv4.ttl', count = 2 }]",
            "p.toml:2:9: flows is short for vary; use only one of them",
        ),
        (
            "[[stream]]\npcap = 'x.pcap'\nsize = 64",
            "p.toml:3:8: frames of a capture file have their own sizes",
        ),
        ("[[stream]]\nframe = 1", "p.toml:2:9: this requires pcap"),
        (
            "[[stream]]\nchecksums = ['ip']",
            "p.toml:2:13: unknown name `ip`; known are ipv4, udp, tcp, icmp, icmpv6, gre",
        ),
        (
            "[[stream]]\ndelay = '1 fortnight'",
            "p.toml:2:9: `1 fortnight` is not a time such as 10us, 1.5ms or 2s",
        ),
        (
            "[[stream]]\nflows = 5000000000",
            "p.toml:2:9: found integer `5000000000`, expected a number from 0 to 4294967295",
        ),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    }
}

#[test]
fn too_many_streams_and_too_long_a_file() {
    let many = "[[stream]]\n".repeat(65_537);
    let error = parse(&many).unwrap_err().to_string();
    assert_eq!(
        error,
        "p.toml:1:3: 65537 streams; a profile has at most 32768"
    );
    let long = format!("about = '{}'\n[[stream]]", "x".repeat(LARGEST_FILE));
    assert!(
        parse(&long)
            .unwrap_err()
            .to_string()
            .contains("a profile has at most 4194304")
    );
}

#[test]
fn all_keys_of_a_stream() {
    let profile = parse(
        r#"
        fwdlab = "0.1"
        about = "all keys"
        source = "this test"
        rate = "1Mpps"
        [[stream]]
        name = "up"
        direction = "forward"
        layers = [{ ethernet = { destination = "02:00:00:00:00:01" } }, "vlan", { vlan = { id = 7 } }, "ipv4", "udp", { payload = { text = "x", repeat = true } }]
        plan = "rfc2544"
        size = "imix"
        vary = [
            { field = ["ipv4.source", "udp.source-port"], from = 1, count = 20 },
            { field = "ipv4.destination", values = ["198.19.0.1", "198.19.0.7"] },
            { at = 26, bytes = 4, from = "0xffffffff", to = "4294967295", change = "decrement", step = 2 },
        ]
        order = "shuffled"
        seed = 7
        cache = 100
        checksums = ["ipv4"]
        signature = false
        share = 2.5
        bursts = { frames = 10, pause = "1ms", count = 3 }
        delay = "10us"
        next = "2"
        runs = 4
        [[stream]]
        pcap = "x.pcap"
        frame = 2
        keep-macs = true
        burst = 1
        next = "up"
        "#,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(profile.name, "p");
    let (up, second) = (&profile.streams[0], &profile.streams[1]);
    let Some(Size::Pattern(pattern)) = &up.size else {
        panic!("a mix is a pattern");
    };
    assert_eq!(pattern.sizes.len(), 12);
    assert!(up.checksums.of("ipv4") && !up.checksums.of("udp") && second.checksums.of("udp"));
    let flows: Vec<bool> = up.vary.iter().map(Vary::spans_flows).collect();
    assert_eq!(flows, [true, true, false]);
    // a chain begins with the first stream in the file
    assert!(!profile.waits(0) && profile.waits(1));
    assert_eq!(profile.stream_named("2"), Some(1));
    assert_eq!(up.layers.iter().flatten().count(), 6);
    // a key with its former name
    let [now, former] = ["tpid", "announced-by"].map(|key| {
        let text =
            format!("[[stream]]\nlayers = [{{ vlan = {{ {key} = 0x88a8 }} }}, 'ipv4', 'udp']");
        format!("{:?}", parse(&text).unwrap().streams)
    });
    assert_eq!(now, former);
}

#[test]
fn sizes_as_people_say_them() {
    let sizes = |text: &str| match parse(&format!("[[stream]]\nsize = {text}"))
        .map(|p| p.streams[0].size.clone())
    {
        Ok(Some(Size::Pattern(pattern))) => (pattern.sizes, pattern.padded),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(sizes("64").0, [64]);
    assert_eq!(sizes("'64'").0, [64]);
    assert_eq!(sizes("[64, 1518, 64]").0, [64, 1518, 64]);
    // RFC 6985: the order of a genome is kept
    assert_eq!(sizes("'2(ad)g'").0, [64, 512, 64, 512, 1518]);
    assert_eq!(sizes("'standard-imix'").1, [58, 62]);
    assert_eq!(sizes("'tcp-imix'").0.len(), 10_000);
    for bad in [
        "'1000000000a'",
        "[]",
        "-64",
        "1.5",
        "{ from = 64 }",
        "{ from = 64, to = 70000 }",
    ] {
        assert!(
            parse(&format!("[[stream]]\nsize = {bad}")).is_err(),
            "{bad}"
        );
    }
}
