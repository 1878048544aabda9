/* Large folios of anonymous memory: the VMA that they have to be inside of. */
#ifndef MMTWIN_FOLIOS_H
#define MMTWIN_FOLIOS_H

#define vma_is_anonymous(vma) ((void)(vma), true)
#define IS_ALIGNED(number, to) (((number) & ((to) - 1)) == 0)

struct vma_numab_state;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	struct vma_numab_state *numab_state;
};

#endif
