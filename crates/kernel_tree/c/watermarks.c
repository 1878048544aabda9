/* Watermarks, between mmtwin's record and the kernel's zones. */

#ifdef MMTWIN_CALL___setup_per_zone_wmarks
MMTWIN_DECISION(__setup_per_zone_wmarks, mmtwin_watermarks)
{
	struct zone zones[ARRAY_SIZE(state->kind)];
	int zone;

	mmtwin_zones = zones;
	mmtwin_nr_zones = state->nr_zones;
	mmtwin_page_shift = state->page_shift;
	min_free_kbytes = state->min_free_kbytes;
	watermark_scale_factor = state->watermark_scale_factor;
	for (zone = 0; zone < state->nr_zones; zone++)
		zones[zone] = (struct zone){ .mmtwin_managed = state->managed[zone], .mmtwin_type = state->kind[zone] };
	MMTWIN_CALL___setup_per_zone_wmarks;
	for (zone = 0; zone < state->nr_zones; zone++) {
		state->min[zone] = zones[zone]._watermark[WMARK_MIN];
		state->low[zone] = zones[zone]._watermark[WMARK_LOW];
		state->high[zone] = zones[zone]._watermark[WMARK_HIGH];
		state->promo[zone] = zones[zone]._watermark[WMARK_PROMO];
	}
}
#endif
