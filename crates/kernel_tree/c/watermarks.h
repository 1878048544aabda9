/* Watermarks: all zones of the machine, which the kernel goes through twice. */
#ifndef MMTWIN_WATERMARKS_H
#define MMTWIN_WATERMARKS_H

static __thread struct zone *mmtwin_zones;
static __thread int mmtwin_nr_zones;
static __thread int min_free_kbytes;
static __thread int watermark_scale_factor;
static __thread int watermark_boost_factor;

#define for_each_zone(zone) for (zone = mmtwin_zones; zone < mmtwin_zones + mmtwin_nr_zones; zone++)
#define calculate_totalreserve_pages() ((void)0)
#define is_kdump_kernel() false

#endif
