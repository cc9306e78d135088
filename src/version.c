/*
 * version.c
 *	  Which version this library is.
 *
 * The version is that of shardfdw.control; the Makefile hands it to this file alone.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "utils/builtins.h"

SHARD_MODULE_MAGIC("shardfdw", SHARDFDW_VERSION);

PG_FUNCTION_INFO_V1(shardfdw_library_version);

/*
 * library_version() -> text
 */
Datum
shardfdw_library_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(SHARDFDW_VERSION));
}
