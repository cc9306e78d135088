/*
 * text_form.h
 *	  Text forms in which values travel between the servers.
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
 * begin_write sets the settings under which text is written that every session reads the
 * same; begin_read those under which such text is read.  settings: of the types
 * (shard_type_io_text_settings()).  They do nothing where the settings are right already,
 * which is mostly so.  Return what shard_text_form_end() takes; an error undoes the
 * settings, too.
 */
extern int	shard_text_form_begin_write(int settings);
extern int	shard_text_form_begin_read(int settings);
extern void shard_text_form_end(int nestlevel);

#endif
