/*
 * scram_secret.c
 *	  What a server stores for a password.
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq/crypt.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_scram_secret);

/* (password text) -> text: the SCRAM verifier, with a new salt. */
Datum
shardfdw_scram_secret(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(encrypt_password(PASSWORD_TYPE_SCRAM_SHA_256, "", text_to_cstring(PG_GETARG_TEXT_PP(0)))));
}
