/*
 * error_name.h
 *	  Replaces names in errors of nodes: shards' names by those of the sharded table.
 */
#ifndef SHARDFDW_ERROR_NAME_H
#define SHARDFDW_ERROR_NAME_H

extern void shard_error_name_init(void);	/* registers with remote/wire/error.c */

#endif
