/*
 * wire_form.h
 *	  The built-in types with a portable binary form, and how their values are decoded and encoded.
 *
 * For decode.c, encode.c and type_io.c.
 */
#ifndef SHARDFDW_WIRE_FORM_H
#define SHARDFDW_WIRE_FORM_H

#include "postgres.h"

typedef enum ShardDecodeOp
{
	OP_BOOL,
	OP_CHAR,					/* "char" */
	OP_INT2,
	OP_INT4,
	OP_INT8,
	OP_UINT4,					/* oid, xid, cid */
	OP_UINT8,					/* xid8, pg_lsn */
	OP_FLOAT4,
	OP_FLOAT8,
	OP_DATE,
	OP_TIME,
	OP_TIMESTAMP,				/* with and without time zone */
	OP_UUID,
	OP_BYTES,					/* bytea: any bytes */
	OP_TEXT,					/* text, varchar, bpchar: bytes in the database's encoding */
	OP_NAME,
	OP_JSONB,					/* version byte, then text */
	OP_RECEIVE,					/* calls the receive function */
	OP_INPUT,					/* calls the input function */
	OP_SYSTEM,					/* a system column */
	OP_STATE,					/* bytea: a serialized state, which must be checked */

	/* several remote columns, see remote_columns() */
	OP_INT8_SUM,
	OP_NUMERIC_SUM,
	OP_INTERVAL_SUM,
	OP_POLY_VARIANCE,
	OP_NUMERIC_VARIANCE
} ShardDecodeOp;

typedef enum ShardEncodeOp
{
	ENCODE_BYTE,				/* bool, "char" */
	ENCODE_INT2,
	ENCODE_INT4,				/* also float4, date, oid */
	ENCODE_INT8,				/* also float8, timestamps, time, money */
	ENCODE_FIXED,				/* by reference, the bytes of the type's fixed length unchanged */
	ENCODE_VARLENA,				/* the payload unchanged: text, bytea, json */
	ENCODE_NAME,
	ENCODE_JSONB,
	ENCODE_TIMETZ,
	ENCODE_INTERVAL,
	ENCODE_ENUM,				/* the label */
	ENCODE_ARRAY,				/* of elements with one of the operations above */
	ENCODE_SEND					/* calls the type's send function */
} ShardEncodeOp;

typedef struct ShardWireForm
{
	Oid			type;
	ShardDecodeOp	decode;
	ShardEncodeOp	encode;
	bool		is_text;		/* the binary form is text in the connection's encoding, or contains such text */
	int			text_settings;	/* settings on which the text form depends, see type_io.h */
} ShardWireForm;

/* The form of a type; NULL for types that are not built in, and for types without such a form. */
extern const ShardWireForm *shard_wire_form(Oid type);

#endif
