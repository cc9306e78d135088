/*
 * error_name.h
 *	  Names in errors of nodes: those of the sharded table for those of its shards.
 */
#ifndef SHARDFDW_ERROR_NAME_H
#define SHARDFDW_ERROR_NAME_H

extern void shard_error_name_init(void);	/* registers with remote/wire/error.c */

#endif
