//! Parses the arguments of -P, -r and -S.

use stat::Resource;

use super::{Lines, Section, Sort, Wrong};

pub(super) type Line = fn(&mut Lines) -> &mut bool;

/// Returns the lines that an argument of -P selects.
pub(super) fn lines(word: &str) -> Option<Line> {
    let line: Line = match word {
        "resource" => |lines| &mut lines.resource,
        "total" => |lines| &mut lines.total,
        "system" => |lines| &mut lines.system,
        "zones" => |lines| &mut lines.zones,
        "header" => |lines| &mut lines.header,
        "footer" => |lines| &mut lines.footer,
        _ => return None,
    };
    Some(line)
}

/// Returns the sections for the words of -r, each once and in the order of reports.
pub(super) fn sections(words: &[String]) -> Result<Vec<Section>, Wrong> {
    use Resource::{
        Locked, Lofi, Lwps, MsgIds, Physical, Processes, SemIds, ShmIds, ShmMemory, Virtual,
    };
    const ORDER: [Section; 16] = [
        Section::Summary,
        Section::One(Physical),
        Section::One(Virtual),
        Section::One(Locked),
        Section::Psets,
        Section::DefaultPset,
        Section::One(Processes),
        Section::One(Lwps),
        Section::One(Lofi),
        Section::One(ShmMemory),
        Section::One(ShmIds),
        Section::One(SemIds),
        Section::One(MsgIds),
        Section::Network,
        Section::Disk,
        Section::Pressure,
    ];
    let mut chosen = Vec::new();
    for word in words {
        let of: &[Section] = match word.as_str() {
            "summary" => &[Section::Summary],
            "memory" => &[
                Section::One(Physical),
                Section::One(Virtual),
                Section::One(Locked),
            ],
            "processor-set" | "psets" => &[Section::Psets],
            "default-pset" => &[Section::DefaultPset],
            "limits" => &[
                Section::One(Processes),
                Section::One(Lwps),
                Section::One(Lofi),
            ],
            "sysv" => &[
                Section::One(ShmMemory),
                Section::One(ShmIds),
                Section::One(SemIds),
                Section::One(MsgIds),
            ],
            "network" => &[Section::Network],
            "disk" => &[Section::Disk],
            "pressure" => &[Section::Pressure],
            "all" => &ORDER,
            word => {
                let mut all = Resource::ALL.into_iter();
                let one = all.find(|resource| resource.as_str() == word);
                let one = one.ok_or_else(|| Wrong(format!("Unknown resource: {word}")))?;
                chosen.push(Section::One(one));
                continue;
            }
        };
        chosen.extend_from_slice(of);
    }
    if chosen.is_empty() {
        chosen.push(Section::Summary);
    }
    // The default set is one of all sets of CPUs.
    if chosen.contains(&Section::Psets) {
        chosen.retain(|section| *section != Section::DefaultPset);
    }
    let order = ORDER.into_iter();
    Ok(order.filter(|section| chosen.contains(section)).collect())
}

/// Returns the sort keys for the words of -S.
pub(super) fn sorting(words: &[String]) -> Result<(Vec<Sort>, Resource), Wrong> {
    let (mut sort, mut by) = (Vec::new(), None);
    for word in words {
        let resource = match word.as_str() {
            "name" => {
                sort.push(Sort::Name);
                continue;
            }
            "used" => {
                sort.push(Sort::Used);
                continue;
            }
            "cap" => {
                sort.push(Sort::Cap);
                continue;
            }
            "pcap" => {
                sort.push(Sort::PercentOfCap);
                continue;
            }
            "shr" => {
                sort.push(Sort::Shares);
                continue;
            }
            "pshru" => {
                sort.push(Sort::PercentOfShares);
                continue;
            }
            "cpu" => Resource::Cpu,
            "physical-memory" => Resource::Physical,
            "virtual-memory" => Resource::Virtual,
            word => return Err(Wrong(format!("Unknown -S arg: {word}"))),
        };
        if by.replace(resource).is_some() {
            let text =
                "-S: only one of \"cpu\", \"physical-memory\", or \"virtual-memory\" permitted";
            return Err(Wrong(text.to_owned()));
        }
    }
    if sort.is_empty() {
        sort = vec![Sort::Used, Sort::Name];
    }
    Ok((sort, by.unwrap_or(Resource::Cpu)))
}
