/*
 * byte_order.h
 *	  Reads and writes integers in network byte order at any address.
 */
#ifndef SHARDFDW_BYTE_ORDER_H
#define SHARDFDW_BYTE_ORDER_H

#include "postgres.h"

#include "port/pg_bswap.h"

static inline uint16
shard_get_uint16(const char *p)
{
	uint16		value;

	memcpy(&value, p, sizeof(value));
	return pg_ntoh16(value);
}

static inline uint32
shard_get_uint32(const char *p)
{
	uint32		value;

	memcpy(&value, p, sizeof(value));
	return pg_ntoh32(value);
}

static inline uint64
shard_get_uint64(const char *p)
{
	uint64		value;

	memcpy(&value, p, sizeof(value));
	return pg_ntoh64(value);
}

#endif
