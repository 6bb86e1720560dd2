//! Rules about the source tree that the compiler does not know: which crate may know which, how long a file may be,
//! what a crate's head says, whether folders of rows are rows, the table of cases names all scenarios of cases, and generated
//! tables are those of the program.

mod cases;
mod edges;
mod files;

use anyhow::{Result, bail};

/// Checks every rule and names every breach.
pub(crate) fn run() -> Result<()> {
    let mut breaches = edges::check(&edges::Graph::of_workspace()?);
    breaches.extend(files::check(crate::root())?);
    breaches.extend(cases::check(crate::root())?);
    breaches.extend(crate::gateway_api::rows::breaches(crate::root())?);
    breaches.extend(crate::docs::stale()?);
    if breaches.is_empty() {
        println!("tidy: crate edges, file sizes, heads, rows, cases and generated tables are as they should be");
        return Ok(());
    }
    bail!("{} breaches of the rules of the source tree:\n  {}", breaches.len(), breaches.join("\n  "));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_keeps_its_edges() {
        let graph = super::edges::Graph::of_workspace().unwrap();
        assert_eq!(super::edges::check(&graph), Vec::<String>::new());
    }
}
