/*
 * copy_rights.h
 *	  Permission checks for the table of a COPY.
 */
#ifndef SHARDFDW_COPY_RIGHTS_H
#define SHARDFDW_COPY_RIGHTS_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "parser/parse_node.h"

/*
 * Raises an error unless the user has the permissions in pstate's range table.  The check looks like the start of an
 * executor statement of type operation (CMD_SELECT or CMD_INSERT).
 */
extern void shard_copy_rights_check(ParseState *pstate, CmdType operation);

#endif
