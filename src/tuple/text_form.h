/*
 * text_form.h
 *	  Text forms of values on their way between the servers.
 */
#ifndef SHARDFDW_TEXT_FORM_H
#define SHARDFDW_TEXT_FORM_H

#include "postgres.h"

#include "fmgr.h"

/* Looks up how values of type are written. Memory: what the function keeps is in cxt. */
extern void shard_text_form_init(FmgrInfo *output, Oid type, MemoryContext cxt);

/* Text form of value; between begin_write and end.  Memory: current context. */
extern char *shard_text_form_write(FmgrInfo *output, Oid type, Datum value);

/*
 * Put in force, for types with these settings (shard_type_io_text_settings()),
 * those under which text is written that every session reads the same, and
 * those under which such text is read.  Nothing is done where they are in force
 * already, which is mostly so.  Result: for shard_text_form_end(); an error
 * undoes it, too.
 */
extern int	shard_text_form_begin_write(int settings);
extern int	shard_text_form_begin_read(int settings);
extern void shard_text_form_end(int nestlevel);

#endif
