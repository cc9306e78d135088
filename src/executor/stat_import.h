/*
 * stat_import.h
 *	  Statistics of a shard's columns, taken over from its node.
 */
#ifndef SHARDFDW_STAT_IMPORT_H
#define SHARDFDW_STAT_IMPORT_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Gives the columns of relation, a shard, the statistics that the node has of
 * its table.  Returns false, and changes nothing, when the node has none of some
 * column, when too many rows have changed since it made them, or when the coordinator
 * cannot use them.  relation_name: the table on the node, quoted.
 * *nrows: rows that the node believes the table to have.
 */
extern bool shard_stat_import(Relation relation, Oid serverid, const char *relation_name,
							  const char *label, double *nrows);

#endif
