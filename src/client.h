/*
 * client.h
 *	  The connection to the client of this backend: core's libpq/libpq.h.
 *
 * That header includes those of GSSAPI and OpenSSL, for members of a struct that this extension
 * does not use.  Without them core keeps the same layout of the struct (see libpq-be.h), so their
 * development packages are not needed.
 */
#ifndef SHARDFDW_CLIENT_H
#define SHARDFDW_CLIENT_H

#include "postgres.h"

#pragma push_macro("ENABLE_GSS")
#pragma push_macro("USE_OPENSSL")
#undef ENABLE_GSS
#undef USE_OPENSSL
#include "libpq/libpq.h"
#pragma pop_macro("USE_OPENSSL")
#pragma pop_macro("ENABLE_GSS")
#include "libpq/pqformat.h"

#endif
