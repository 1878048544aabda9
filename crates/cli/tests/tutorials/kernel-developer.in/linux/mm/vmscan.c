/* Another patch in the same tree: the multi-gen LRU evicts from the first tier only. */
static int get_tier_idx(struct lruvec *lruvec, int type)
{
	return 0;
}
