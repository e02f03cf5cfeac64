//! Uploads files of a configuration set to a DUT, and restores the previous ones.
//!
//! The previous contents and modes are in the lab's record before anything is written: they can be
//! restored after a crash of fwdlab and after a restart of the DUT, whatever its file systems lose.
//! The scripts run in any `sh`. Start with [`Uploads::look`].

use std::fmt::Write;
use std::sync::Arc;

use super::set::folder::{Folder, Upload};
use crate::error::LabError;
use crate::host::{Command, Host, Limit, quoted};

/// Larger files are not replaced, because their old contents would have to be recorded.
const LARGEST: usize = 4 << 20;

/// Commands before and after writing; empty on most systems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WriteCommands {
    pub before: &'static str,
    pub after: &'static str,
}

/// What was at a path before.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PreviousFile {
    Nothing,
    File {
        content: Vec<u8>,
        mode: String,
        owner: String,
    },
    Link(String),
}

/// Files to upload, and what they replace.
#[derive(Debug)]
pub(super) struct Uploads<'a> {
    files: Vec<(&'a Upload, PreviousFile)>,
    /// Directories that do not exist yet, inner ones last.
    new_folders: Vec<String>,
    folder: &'a Folder,
    around: WriteCommands,
}

impl<'a> Uploads<'a> {
    /// Reads what is there now.
    ///
    /// # Errors
    /// It cannot be read, or could not be restored.
    pub fn look(
        host: &Arc<dyn Host>,
        folder: &'a Folder,
        around: WriteCommands,
    ) -> Result<Uploads<'a>, LabError> {
        let mut uploads = Uploads {
            files: Vec::new(),
            new_folders: Vec::new(),
            folder,
            around,
        };
        if folder.files.is_empty() {
            return Ok(uploads);
        }
        let mut script = String::from(LOOK);
        let mut folders: Vec<&str> = Vec::new();
        for file in &folder.files {
            let _ = writeln!(script, "look {}", quoted(&file.theirs));
            let parents = file
                .theirs
                .match_indices('/')
                .map(|(at, _)| &file.theirs[..at]);
            folders.extend(parents.filter(|parent| !parent.is_empty()));
        }
        folders.sort_unstable();
        folders.dedup();
        for parent in &folders {
            let _ = writeln!(
                script,
                "[ -d {0} ] && echo there || echo new",
                quoted(parent)
            );
        }
        let action = format!("inspect the files that {} replaces", folder.path.display());
        let command = Command::new("sh", &["-s"])
            .with_input(script)
            .called(&action);
        let output = host.run(&command, Limit::OURS)?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let strange = || crate::host::not_understood(host.as_ref(), &action, &output);
        let lines: Vec<&str> = output.lines().collect();
        if lines.len() != folder.files.len() + folders.len() {
            return Err(strange());
        }
        for (file, line) in folder.files.iter().zip(&lines) {
            let was = match line.split_once(' ').unwrap_or((line, "")) {
                ("nothing", "") => PreviousFile::Nothing,
                ("link", to) if !to.is_empty() => PreviousFile::Link(to.to_owned()),
                ("file", of) => {
                    let is_number =
                        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
                    let (mode, owner) = of.split_once(' ').ok_or_else(strange)?;
                    let (user, group) = owner.split_once(':').ok_or_else(strange)?;
                    if ![mode, user, group].into_iter().all(is_number) {
                        return Err(strange());
                    }
                    let content = host.read(&file.theirs)?;
                    if content.len() > LARGEST {
                        return Err(LabError::Preflight(format!(
                            "{} on {} has {} bytes. Files of more than {LARGEST} bytes are not replaced, because their old contents would \
                             have to be recorded. Leave it out of the set, or replace it by hand",
                            file.theirs,
                            host.name(),
                            content.len()
                        )));
                    }
                    PreviousFile::File {
                        content,
                        mode: mode.to_owned(),
                        owner: owner.to_owned(),
                    }
                }
                ("other", _) => {
                    return Err(LabError::Preflight(format!(
                        "{} on {} is not a regular file and cannot be replaced. Check it there, or leave it out of the set",
                        file.theirs,
                        host.name()
                    )));
                }
                _ => return Err(strange()),
            };
            uploads.files.push((file, was));
        }
        for (folder, line) in folders.iter().zip(&lines[folder.files.len()..]) {
            match *line {
                "there" => {}
                "new" => uploads.new_folders.push((*folder).to_owned()),
                _ => return Err(strange()),
            }
        }
        Ok(uploads)
    }

    /// Returns the command that restores what was there, and then runs these reload commands.
    pub fn restore_command(&self, reload: &[String]) -> Command {
        let mut script = format!("set -e\n{}{BACK}", self.around.before);
        for (file, was) in &self.files {
            let path = quoted(&file.theirs);
            let _ = match was {
                PreviousFile::Nothing => writeln!(script, "rm -f {path}"),
                PreviousFile::Link(to) => {
                    writeln!(script, "rm -f {path}; ln -s {} {path}", quoted(to))
                }
                PreviousFile::File {
                    content,
                    mode,
                    owner,
                } => writeln!(script, "{} | back {path} {mode} {owner}", print(content)),
            };
            let _ = writeln!(
                script,
                "rm -f {}",
                quoted(&format!("{}.fwdlab-new", file.theirs))
            );
        }
        for folder in self.new_folders.iter().rev() {
            let _ = writeln!(script, "rmdir {} 2>/dev/null || :", quoted(folder));
        }
        script += self.around.after;
        for command in reload {
            let _ = writeln!(script, "{command}");
        }
        let action = format!(
            "restore the files that {} replaced",
            self.folder.path.display()
        );
        Command::new("sh", &["-s"])
            .with_input(script)
            .called(action)
    }

    /// Uploads the files. A file that existed keeps its mode and owner.
    pub fn carry_out(&self, host: &Arc<dyn Host>) -> Result<(), LabError> {
        let files: Vec<&Upload> = self.files.iter().map(|(file, _)| *file).collect();
        upload(host, self.folder, &files, self.around)
    }
}

/// Uploads files of a set, whatever they replace.
pub(super) fn upload(
    host: &Arc<dyn Host>,
    folder: &Folder,
    files: &[&Upload],
    around: WriteCommands,
) -> Result<(), LabError> {
    if files.is_empty() {
        return Ok(());
    }
    let there = host.put(&folder.path)?;
    let mut script = format!("set -e\n{}{PLACE}", around.before);
    for file in files {
        let ours = file.ours.strip_prefix(&folder.path).unwrap_or(&file.ours);
        let ours = format!("{there}/{}", ours.display());
        let _ = writeln!(
            script,
            "place {} {} {:o}",
            quoted(&ours),
            quoted(&file.theirs),
            file.mode
        );
    }
    script += around.after;
    let action = format!("upload the files of {}", folder.path.display());
    let command = Command::new("sh", &["-s"])
        .with_input(script)
        .called(action);
    host.run(&command, Limit::OURS)?;
    Ok(())
}

/// Prints one line: `nothing`, `link TARGET`, `file MODE UID:GID`, `other`.
const LOOK: &str = "\
look() {
    if [ -L \"$1\" ]; then echo \"link $(readlink \"$1\")\"
    elif [ -f \"$1\" ]; then echo \"file $(stat -c '%a %u:%g' \"$1\" 2>/dev/null || stat -f '%Lp %u:%g' \"$1\")\"
    elif [ -e \"$1\" ]; then echo other
    else echo nothing
    fi
}
";

/// Writes the new file completely before it replaces the old one.
const PLACE: &str = "\
place() {
    new=\"$2.fwdlab-new\"
    mkdir -p \"${2%/*}\"
    if [ -f \"$2\" ] && [ ! -L \"$2\" ]; then
        cp -p \"$2\" \"$new\"; cat \"$1\" > \"$new\"
    else
        cp \"$1\" \"$new\"; chmod \"$3\" \"$new\"
    fi
    mv -f \"$new\" \"$2\"
}
";

const BACK: &str = "\
back() {
    mkdir -p \"${1%/*}\"
    cat > \"$1.fwdlab-back\"
    chown \"$3\" \"$1.fwdlab-back\"
    chmod \"$2\" \"$1.fwdlab-back\"
    mv -f \"$1.fwdlab-back\" \"$1\"
}
";

/// Returns a command that prints exactly this content.
fn print(content: &[u8]) -> String {
    match std::str::from_utf8(content) {
        Ok(text) if !text.contains('\0') => format!("printf %s '{}'", text.replace('\'', r"'\''")),
        _ => {
            let mut octal = String::new();
            for byte in content {
                let _ = write!(octal, "\\0{byte:03o}");
            }
            format!("printf %b '{octal}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::dut::set::folder::Kind;
    use crate::host::Local;

    fn state(root: &Path) -> Vec<String> {
        let mut all = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap();
                let mode = kind.permissions().mode() & 0o7777;
                if kind.is_dir() {
                    folders.push(path.clone());
                    all.push(format!("{} {mode:o}", path.display()));
                } else if kind.is_symlink() {
                    let to = fs::read_link(&path).unwrap();
                    all.push(format!("{} -> {}", path.display(), to.display()));
                } else {
                    let content = fs::read(&path).unwrap();
                    all.push(format!("{} {mode:o} {content:?}", path.display()));
                }
            }
        }
        all.sort();
        all
    }

    /// On files of this machine, in a directory that represents the DUT's root, with a real shell.
    #[test]
    fn uploaded_files_are_restored() {
        let (there, set) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = there.path();
        fs::create_dir_all(root.join("etc")).unwrap();
        let strange = "it's $HOME\n`x` \\n %s %b \"q\" without end";
        fs::write(root.join("etc/text"), strange).unwrap();
        fs::set_permissions(root.join("etc/text"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(root.join("etc/bytes"), [0, 1, 255, b'\n', b'\\', b'\'']).unwrap();
        std::os::unix::fs::symlink("text", root.join("etc/link")).unwrap();
        let before = state(root);

        let names = [
            "etc/text",
            "etc/bytes",
            "etc/link",
            "etc/a b/new",
            "etc/a b/c/it's",
        ];
        let upload = |name: &&str| {
            let ours = set.path().join(name);
            fs::create_dir_all(ours.parent().unwrap()).unwrap();
            fs::write(&ours, format!("new {name}")).unwrap();
            Upload {
                ours,
                theirs: format!("{}/{name}", root.display()),
                mode: 0o755,
                kind: Kind::Other,
            }
        };
        let folder = Folder {
            path: set.path().to_owned(),
            files: names.iter().map(upload).collect(),
            says: Default::default(),
            apply: None,
        };
        let host: Arc<dyn Host> = Arc::new(Local);
        let uploads = Uploads::look(&host, &folder, WriteCommands::default()).unwrap();
        let mark = format!("touch '{}/reloaded'", root.display());
        let undo = uploads.restore_command(&[mark]);
        for times in [1, 2] {
            uploads.carry_out(&host).unwrap();
            for name in names {
                let text = fs::read_to_string(root.join(name)).unwrap();
                assert_eq!(text, format!("new {name}"));
            }
            let mode = |name: &str| {
                fs::symlink_metadata(root.join(name))
                    .unwrap()
                    .permissions()
                    .mode()
                    & 0o7777
            };
            assert_eq!((mode("etc/text"), mode("etc/a b/new")), (0o640, 0o755));
            assert!(
                !fs::symlink_metadata(root.join("etc/link"))
                    .unwrap()
                    .is_symlink()
            );
            for _ in 0..times {
                host.run(&undo, Limit::OURS).unwrap();
            }
            fs::remove_file(root.join("reloaded")).unwrap();
            assert_eq!(state(root), before);
        }
        // a second time does no harm
        host.run(&undo, Limit::OURS).unwrap();
        fs::remove_file(root.join("reloaded")).unwrap();
        assert_eq!(state(root), before);

        // a file cannot replace a directory
        fs::create_dir_all(root.join("etc/d")).unwrap();
        let mut wrong = folder.clone();
        wrong.files[0].theirs = format!("{}/etc/d", root.display());
        let error = Uploads::look(&host, &wrong, WriteCommands::default()).unwrap_err();
        assert!(
            error.to_string().contains("is not a regular file"),
            "{error}"
        );
    }
}
