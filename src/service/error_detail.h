/*
 * error_detail.h
 *	  Decides whether the user may read the values of a row in a node's error.
 */
#ifndef SHARDFDW_ERROR_DETAIL_H
#define SHARDFDW_ERROR_DETAIL_H

#include "postgres.h"

/*
 * May the current user read the values in detail, the DETAIL of an error about table
 * schema.name of the server?
 *
 * relid: that table here, a foreign table or a reference table.
 *
 * is_key: detail shows a key of it, "(columns)=(values)", and not the whole row.
 */
extern bool shard_error_detail_is_readable(Oid relid, Oid serverid, const char *schema, const char *name,
										   const char *detail, bool is_key);

#endif
