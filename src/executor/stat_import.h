/*
 * stat_import.h
 *	  Copies the statistics of a shard's columns from its node.
 */
#ifndef SHARDFDW_STAT_IMPORT_H
#define SHARDFDW_STAT_IMPORT_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Copies the statistics that the node has of its table to the columns of relation, a shard.
 * Returns false, and changes nothing, if the node has none for a column, if too many rows have
 * changed since, or if the coordinator cannot use them.
 *
 * relation_name: the table on the node, quoted.  *nrows: number of rows by the node's estimate.
 */
extern bool shard_stat_import(Relation relation, Oid serverid, const char *relation_name,
							  const char *label, double *nrows);

#endif
