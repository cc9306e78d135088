/*
 * reference_trigger.h
 *	  Rows of reference tables that a trigger has sent.
 */
#ifndef SHARDFDW_REFERENCE_TRIGGER_H
#define SHARDFDW_REFERENCE_TRIGGER_H

/* The subtransaction level, or the transaction, ends. */
extern void shard_reference_trigger_end_level(int level);
extern void shard_reference_trigger_end_transaction(void);

#endif
