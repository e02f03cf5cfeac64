//! Random profiles as text: every possible stack, sizes of every kind, modifiers on every field
//! that does not change the protocol of the frame.
//!
//! Start with [`Dice::profile`].

/// A source of random choices; the same seed gives the same profile.
pub struct Dice(pub u64);

/// Fields that may vary without changing the protocol of the frame, with their largest value.
const FIELDS: [(&str, u64); 31] = [
    ("ethernet.source", 0),
    ("vlan.id", 4095),
    ("vlan.priority", 7),
    ("mpls.label", 0xf_ffff),
    ("mpls.traffic-class", 7),
    ("mpls.ttl", 255),
    ("arp.sender-ip", 0),
    ("arp.target-ip", 0),
    ("ipv4.traffic-class", 255),
    ("ipv4.dscp", 63),
    ("ipv4.identification", 65_535),
    ("ipv4.ttl", 255),
    ("ipv4.source", 0),
    ("ipv4.destination", 0),
    ("ipv6.traffic-class", 255),
    ("ipv6.flow-label", 0xf_ffff),
    ("ipv6.hop-limit", 255),
    ("ipv6.source", 0),
    ("ipv6.destination", 0),
    ("fragment.identification", 0xffff_ffff),
    ("udp.source-port", 65_535),
    ("udp.destination-port", 4000),
    ("tcp.source-port", 65_535),
    ("tcp.sequence", 0xffff_ffff),
    ("tcp.window", 65_535),
    ("icmp.identifier", 65_535),
    ("icmp.sequence", 65_535),
    ("icmpv6.sequence", 65_535),
    ("nd.target", 0),
    ("gre.key", 0xffff_ffff),
    ("vxlan.vni", 0xff_ffff),
];

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns a profile of one to three streams.
    pub fn profile(&mut self) -> String {
        let mut text = "about = 'random'\n".to_owned();
        for _ in 0..1 + self.below(3) {
            text += &self.stream();
        }
        text
    }

    fn stream(&mut self) -> String {
        let layers = self.layers();
        let mut text = format!("[[stream]]\nlayers = [{}]\n", layers.join(", "));
        // room for any stack
        text += match self.below(6) {
            0 => "",
            1 => "size = 256\n",
            2 => "size = [300, 256, 1518]\n",
            3 => "size = { from = 260, to = 400, step = 7, change = 'random', seed = 3 }\n",
            4 => "size = { from = 257, to = 300 }\n",
            _ => "size = '3Ag A=300'\n",
        };
        let mut entries = Vec::new();
        for (field, most) in FIELDS {
            let layer = field.split('.').next().unwrap_or_default();
            let present = layers.iter().filter(|l| name_of(l) == layer).count();
            if present == 0 && layer != "ethernet" || !self.one_in(4) {
                continue;
            }
            if field == "gre.key" && !layers.iter().any(|l| l.contains("key")) {
                continue;
            }
            if layer == "udp" && layers.iter().any(|l| l.contains("vxlan")) {
                continue;
            }
            let field = match present {
                2.. if self.one_in(2) => field.replacen(layer, &format!("{layer}[2]"), 1),
                _ => field.to_owned(),
            };
            entries.push(self.entry(&field, most));
        }
        text += &format!("vary = [{}]\n", entries.join(", "));
        text += &format!(
            "order = '{}'\nseed = {}\n",
            self.pick(&["sequential", "shuffled", "random", "drawn"]),
            self.below(1000)
        );
        if self.one_in(8) {
            text += "signature = false\n";
        }
        if self.one_in(8) {
            text += &format!("cache = {}\n", 1 + self.below(9));
        }
        if self.one_in(4) {
            text += &format!("share = {}\n", 1 + self.below(9));
        }
        text
    }

    fn entry(&mut self, field: &str, most: u64) -> String {
        let value = |dice: &mut Self| match field.rsplit('.').next().unwrap_or_default() {
            "source" | "destination" | "target"
                if field.starts_with("ipv6") || field.starts_with("nd") =>
            {
                format!("'2001:2:0:7::{:x}'", dice.below(0xffff))
            }
            "source" if field.starts_with("ethernet") => {
                format!("'02:00:00:00:07:{:02x}'", dice.below(256))
            }
            "source" | "destination" | "sender-ip" | "target-ip" => {
                format!("'198.18.{}.{}'", dice.below(256), dice.below(256))
            }
            _ => (most / 4 + dice.below(most / 4 + 1)).to_string(),
        };
        let (from, to) = (value(self), value(self));
        let range = |to: &str| match most {
            0 => String::new(),
            _ => format!(", to = {}", to.parse::<u64>().unwrap_or(0) + most / 4),
        };
        match self.below(5) {
            0 => format!("{{ field = '{field}', values = [{from}, {to}] }}"),
            1 => format!(
                "{{ field = '{field}', from = {from}, count = {} }}",
                1 + self.below(most.clamp(5, 20) / 4)
            ),
            2 => format!(
                "{{ field = '{field}', from = {from}, count = 3, step = {} }}",
                1 + self.below(most.clamp(32, 99) / 32)
            ),
            3 if most > 0 => format!(
                "{{ field = '{field}', from = 0, change = 'random', seed = 5{} }}",
                range(&to)
            ),
            3 => format!(
                "{{ field = '{field}', from = {from}, count = 90, change = 'random', seed = 5 }}"
            ),
            _ => format!("{{ field = '{field}', from = {from}, count = 2, change = 'decrement' }}"),
        }
    }

    fn layers(&mut self) -> Vec<String> {
        let mut layers: Vec<String> = Vec::new();
        let mut put = |layer: &str| layers.push(layer.to_owned());
        match self.below(6) {
            0 => put("'vlan'"),
            1 => ["{ vlan = { id = 7, priority = 5 } }", "'vlan'"]
                .into_iter()
                .for_each(&mut put),
            2 => put("{ mpls = { label = 77, ttl = 3 } }"),
            3 => ["'vlan'", "'mpls'", "{ mpls = { label = 1000 } }"]
                .into_iter()
                .for_each(&mut put),
            _ => {}
        }
        if layers.is_empty() && self.one_in(12) {
            layers.push("'arp'".to_owned());
            return layers;
        }
        let mut six = self.ip(&mut layers);
        match self.below(6) {
            0 => {
                layers.push(
                    self.pick(&[
                        "'gre'",
                        "{ gre = { key = 7 } }",
                        "{ gre = { checksum = true } }",
                        "{ gre = { checksum = true, key = 1, sequence = 2 } }",
                    ])
                    .to_owned(),
                );
                six = self.ip(&mut layers);
            }
            1 => {
                layers
                    .extend(["'udp'", "{ vxlan = { vni = 77 } }", "'ethernet'"].map(str::to_owned));
                six = self.ip(&mut layers);
            }
            2 => six = self.ip(&mut layers),
            _ => {}
        }
        let transport = match six {
            false => [
                "'udp'",
                "{ tcp = { options = '020405b4' } }",
                "'icmp'",
                "{ udp = { source-port = 7 } }",
                "'udp'",
            ],
            true => ["'udp'", "'tcp'", "'icmpv6'", "'nd'", "'udp'"],
        };
        layers.push(self.pick(&transport).to_owned());
        if layers.last().is_some_and(|last| last == "'nd'") {
            return layers;
        }
        match self.below(5) {
            0 => layers.push("{ payload = { text = 'fwdlab ', repeat = true } }".to_owned()),
            1 => layers.push("{ payload = { random = 7 } }".to_owned()),
            2 => layers.push("{ payload = { hex = '00 01 02 03' } }".to_owned()),
            _ => {}
        }
        layers
    }

    /// Adds an IP layer; returns true for IPv6.
    fn ip(&mut self, layers: &mut Vec<String>) -> bool {
        if self.one_in(2) {
            layers.push(
                self.pick(&[
                    "'ipv4'",
                    "{ ipv4 = { ttl = 9, dont-fragment = true } }",
                    "{ ipv4 = { options = '94040000' } }",
                ])
                .to_owned(),
            );
            return false;
        }
        layers.push(
            self.pick(&[
                "'ipv6'",
                "{ ipv6 = { hop-limit = 9, traffic-class = 184 } }",
            ])
            .to_owned(),
        );
        for extension in [
            "'hop-by-hop'",
            "'destination-options'",
            "'routing'",
            "{ fragment = { identification = 7 } }",
        ] {
            if self.one_in(6) {
                layers.push(extension.to_owned());
            }
        }
        true
    }
}

/// Returns the name of a layer in a profile's text.
fn name_of(layer: &str) -> &str {
    layer
        .trim_matches(|c| "'{ ".contains(c))
        .split([' ', '\''])
        .next()
        .unwrap_or_default()
}
