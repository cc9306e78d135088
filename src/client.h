/*
 * client.h
 *	  The connection to this backend's client: core's libpq/libpq.h.
 *
 * That header includes those of GSSAPI and OpenSSL, for members of a struct that this
 * extension does not use.  Core keeps the struct's layout the same without them (see
 * libpq-be.h), so their development packages are not needed.
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
