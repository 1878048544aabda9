//! Compares the counts of the kernel and the twin.

use super::counts::KernelCounts;
use super::recording::RecordedCase;
use crate::verify::{Cause, Causes, Entry};

/// An entry for each counter of each write that both have. `twin` has one element per step.
pub fn entries(recorded: &RecordedCase, twin: &[KernelCounts]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut before = 0;
    for (step, twin) in recorded.steps.iter().zip(twin) {
        let change = format!("{before} -> {}", step.write.pages);
        before = step.write.pages;
        let Some(kernel) = &step.counts else { continue };
        let mut add = |counter: &str, kernel: u64, twin: u64, causes: Causes| {
            entries.push(Entry::new(&recorded.name, format!("{change}: {counter}"), kernel, twin, causes));
        };
        for (kernel, twin) in kernel.compared().into_iter().zip(twin.compared()) {
            // A counter that one side lacks is not compared; one that is 0 on both sides is left out, except
            // for flushes.
            let Some((in_kernel, in_twin)) = kernel.value.zip(twin.value) else { continue };
            if in_kernel > 0 || in_twin > 0 || kernel.name == "do_flush_tlb_all" {
                add(kernel.name, in_kernel, in_twin, Causes::default());
            }
        }
        if kernel.page_tables > 0 || twin.page_tables > 0 {
            let mut causes = Causes::default();
            causes.add(Cause::EarlierSplits, kernel.page_tables);
            add("page tables, from the trace", kernel.page_tables, twin.page_tables, causes);
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::hugetlb::{Pool, Step, Write};

    fn recorded() -> RecordedCase {
        let counts = KernelCounts {
            flush_tlb_all: 2,
            huge_page_allocs: 3,
            page_tables: 1,
            nr_memmap_pages: Some(3),
            nr_memmap_boot_pages: Some(-24),
            pool: Pool { total: 3, free: Some(3), surplus: None },
            ..KernelCounts::default()
        };
        let write = Write { hvo: true, node: None, pages: 3 };
        let step = Step { write, untraced_us: Vec::new(), counts: Some(counts) };
        let unrecorded = Step { write: Write { pages: 0, ..write }, untraced_us: Vec::new(), counts: None };
        RecordedCase { name: "three".into(), mem_free_kib: 0, steps: vec![step, unrecorded] }
    }

    #[test]
    fn a_case_agrees_with_itself() {
        let recorded = recorded();
        let twin = recorded.steps[0].counts.clone().unwrap();
        let entries = entries(&recorded, &[twin.clone(), twin]);
        assert!(entries.iter().all(|entry| entry.case == "three" && entry.error == Some(0.0)));
        let memmap = entries.iter().find(|entry| entry.counter == "0 -> 3: memmap pages given back").unwrap();
        assert_eq!(memmap.kernel, 21);
        let tables =
            entries.iter().find(|entry| entry.counter == "0 -> 3: page tables, from the trace").unwrap();
        assert_eq!(tables.causes.get(Cause::EarlierSplits), 1);
        assert!(!entries.iter().any(|entry| entry.counter.ends_with("surplus_hugepages")));
    }

    #[test]
    fn a_difference_shows() {
        let recorded = recorded();
        let kernel = recorded.steps[0].counts.clone().unwrap();
        let twin = KernelCounts { flush_tlb_all: 4, kernel_range_flush: 3, ..kernel };
        let entries = entries(&recorded, &[twin]);
        let error =
            |counter: &str| entries.iter().find(|entry| entry.counter == counter).map(|entry| entry.error);
        assert_eq!(error("0 -> 3: do_flush_tlb_all"), Some(Some(1.0)));
        assert_eq!(error("0 -> 3: do_kernel_range_flush"), Some(None));
    }
}
