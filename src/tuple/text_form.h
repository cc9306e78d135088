/*
 * text_form.h
 *	  Text forms in which values are sent between servers.
 */
#ifndef SHARDFDW_TEXT_FORM_H
#define SHARDFDW_TEXT_FORM_H

#include "postgres.h"

#include "fmgr.h"

/* Looks up the output function for type.  Memory: the function's own data is in cxt. */
extern void shard_text_form_init(FmgrInfo *output, Oid type, MemoryContext cxt);

/* Returns the text form of value.  Called between begin_write and end.  Memory: current context. */
extern char *shard_text_form_write(FmgrInfo *output, Oid type, Datum value);

/*
 * shard_text_form_begin_write() sets the settings for writing text that every session reads in the same way. begin_read
 * sets those for reading such text. settings: those of the types (shard_type_io_text_settings()).  If the settings are
 * right already, as usual, nothing is done.  Both return the argument of shard_text_form_end().  An error resets the
 * settings, too.
 */
extern int	shard_text_form_begin_write(int settings);
extern int	shard_text_form_begin_read(int settings);
extern void shard_text_form_end(int nestlevel);

#endif
