/* 1/2: the most that one CPU may keep of a zone is its share, but never more than 32 MiB. */
static int zone_highsize(struct zone *zone, int batch, int cpu_online, int high_fraction)
{
	unsigned long pages = high_fraction ? zone_managed_pages(zone) / high_fraction : low_wmark_pages(zone);
	int cpus = cpumask_weight(cpumask_of_node(zone_to_nid(zone))) + cpu_online;
	int share = pages / (cpus ?: num_online_cpus());
	int most = 32 << (20 - PAGE_SHIFT);

	return max(min(share, most), 4 * batch);
}

/* 2/2: clean up, no functional change intended. */
static int nr_pcp_free(struct per_cpu_pages *pcp, int batch, int high, bool free_high)
{
	int most = high - batch;
	int row = max(pcp->free_count, batch);

	if (free_high)
		return min(pcp->count, batch << CONFIG_PCP_BATCH_SCALE_MAX);
	if (most < 0)
		return 1;
	return row < most ? row : most;
}
