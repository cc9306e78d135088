/*
 * definition.h
 *	  Texts of nodes that are parsed before they become part of a command.
 */
#ifndef SHARDFDW_SQLFUNC_DEFINITION_H
#define SHARDFDW_SQLFUNC_DEFINITION_H

#include "nodes/nodes.h"

/*
 * The single statement in text.  NULL if there is another number of statements, or if the text ends in a comment,
 * which would hide text appended to it.
 */
extern Node *shard_definition_statement(const char *text);

#endif
