/*
 * copy_rights.h
 *	  Permissions on the table of a COPY.
 */
#ifndef SHARDFDW_COPY_RIGHTS_H
#define SHARDFDW_COPY_RIGHTS_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "parser/parse_node.h"

/*
 * Raises unless the user has what pstate's range table asks for, as a statement
 * of that kind (CMD_SELECT or CMD_INSERT) that the executor starts.
 */
extern void shard_copy_rights_check(ParseState *pstate, CmdType operation);

#endif
