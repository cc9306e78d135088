/*
 * scram_secret.c
 *	  The SCRAM verifier that a server stores for a password.
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq/crypt.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_scram_secret);

/* maximum length of a password at login */
#define MAX_PASSWORD_LENGTH 65535

/* (password text) -> text: the SCRAM verifier, with a new salt. */
Datum
shardfdw_scram_secret(PG_FUNCTION_ARGS)
{
	char	   *password = text_to_cstring(PG_GETARG_TEXT_PP(0));

	/* each of thousands of iterations hashes the whole password, and they cannot be interrupted */
	if (strlen(password) > MAX_PASSWORD_LENGTH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("password is longer than %d bytes", MAX_PASSWORD_LENGTH)));
	PG_RETURN_TEXT_P(cstring_to_text(encrypt_password(PASSWORD_TYPE_SCRAM_SHA_256, "", password)));
}
