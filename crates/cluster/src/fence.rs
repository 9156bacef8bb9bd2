//! Fence devices, and the question whether one answers.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::view::{BadView, value};

/// A fence device of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The id of its resource.
    pub id: String,
    /// Name of its agent, a program.
    pub agent: String,
    values: Vec<(String, String)>,
}

impl Device {
    /// Returns the fence devices of a CIB.
    ///
    /// # Errors
    /// Fails if the text is not XML.
    pub fn all(cib: &str) -> Result<Vec<Self>, BadView> {
        let mut devices: Vec<Self> = Vec::new();
        let mut reader = Reader::from_str(cib);
        let (mut in_device, mut in_values) = (false, false);
        loop {
            match reader.read_event()? {
                Event::Start(start) | Event::Empty(start) => match start.name().as_ref() {
                    b"primitive" => {
                        let device = Self::read(&start)?;
                        in_device = device.is_some();
                        devices.extend(device);
                    }
                    b"instance_attributes" => in_values = true,
                    b"nvpair" if in_device && in_values => {
                        let pair = (value(&start, "name")?, value(&start, "value")?);
                        if let (Some(device), (Some(name), Some(text))) = (devices.last_mut(), pair)
                        {
                            device.values.push((name, text));
                        }
                    }
                    _ => {}
                },
                Event::End(end) => match end.name().as_ref() {
                    b"primitive" => in_device = false,
                    b"instance_attributes" => in_values = false,
                    _ => {}
                },
                Event::Eof => return Ok(devices),
                _ => {}
            }
        }
    }

    fn read(start: &BytesStart<'_>) -> Result<Option<Self>, BadView> {
        if value(start, "class")?.as_deref() != Some("stonith") {
            return Ok(None);
        }
        Ok(Some(Self {
            id: value(start, "id")?.unwrap_or_default(),
            agent: value(start, "type")?.unwrap_or_default(),
            values: Vec::new(),
        }))
    }

    /// Returns true if the agent is a program that takes its options from its input. Those of
    /// cluster-glue (`external/ipmi`) are not.
    pub fn can_be_asked(&self) -> bool {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        self.agent.starts_with("fence_") && self.agent.chars().all(good)
    }

    /// Returns the input with which the agent tells the state of a host, as Pacemaker gives it.
    pub fn status_request(&self, host: &str) -> String {
        let plug = self.plug(host);
        let mut text = format!("action=status\nnodename={host}\nplug={plug}\nport={plug}\n");
        for (name, value) in &self.values {
            // Settings of Pacemaker, and what was given above.
            if name.starts_with("pcmk_") || ["action", "plug", "port"].contains(&name.as_str()) {
                continue;
            }
            let _ = writeln!(text, "{name}={}", value.replace('\n', " "));
        }
        text
    }

    /// Returns the device's name of a host: `pcmk_host_map` is a list `host:name;host:name`.
    fn plug<'a>(&'a self, host: &'a str) -> &'a str {
        let mut values = self.values.iter();
        let map = values.find(|(name, _)| name == "pcmk_host_map");
        let map = map.map_or("", |(_, text)| text.as_str());
        let pairs = map
            .split([';', ' ', ','])
            .filter_map(|pair| pair.split_once([':', '=']));
        pairs
            .filter(|(name, _)| *name == host)
            .map(|(_, plug)| plug)
            .next()
            .unwrap_or(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIB: &str = r#"<resources><primitive id="zone-web" class="ocf" type="Zone"><instance_attributes id="a">
        <nvpair id="b" name="zone" value="web"/></instance_attributes></primitive>
        <primitive id="pdu" class="stonith" type="fence_apc"><instance_attributes id="c">
        <nvpair id="d" name="ip" value="10.0.0.1"/><nvpair id="e" name="pcmk_host_map" value="host1:7;host2:8"/>
        </instance_attributes><meta_attributes id="m"><nvpair id="n" name="ignored" value="x"/></meta_attributes></primitive>
        <primitive id="old" class="stonith" type="external/ipmi"/></resources>"#;

    #[test]
    fn reads_devices_only() {
        let devices = Device::all(CIB).unwrap();
        assert_eq!(devices.len(), 2);
        assert_eq!(
            (devices[0].id.as_str(), devices[0].agent.as_str()),
            ("pdu", "fence_apc")
        );
        assert!(devices[0].can_be_asked() && !devices[1].can_be_asked());
    }

    #[test]
    fn asks_for_the_plug_of_the_host() {
        let device = &Device::all(CIB).unwrap()[0];
        assert_eq!(
            device.status_request("host2"),
            "action=status\nnodename=host2\nplug=8\nport=8\nip=10.0.0.1\n"
        );
        assert!(device.status_request("host9").contains("plug=host9\n"));
    }
}
