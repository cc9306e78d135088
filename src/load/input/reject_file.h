/*
 * reject_file.h
 *	  A file on the server that becomes visible when the transaction that wrote it commits.
 */
#ifndef SHARDFDW_REJECT_FILE_H
#define SHARDFDW_REJECT_FILE_H

#include "postgres.h"

typedef struct ShardRejectFile ShardRejectFile;

/*
 * Starts to write path, which is absolute.  The bytes go to a new file in the same directory.  The file has no name
 * until finish, or the name "path.tmp<pid>.<n>".  If path is not a regular file (a device, a pipe), the bytes are
 * written to it directly.  Memory: in cxt.  Its reset closes the file and removes it if finish was not called.
 * Errors: as for COPY TO.
 */
extern ShardRejectFile *shard_reject_file_open(MemoryContext cxt, const char *path);

extern void shard_reject_file_write(ShardRejectFile *file, const char *bytes, size_t nbytes);

/*
 * Writes the remaining data and closes the file.  The file gets its name, replacing an existing file, when the
 * transaction commits.  It is removed if the transaction, or the current subtransaction, aborts.
 */
extern void shard_reject_file_finish(ShardRejectFile *file);

/*
 * Transaction callbacks.
 *
 * - pre_prepare: raises an error if files wait for the end of the transaction.  Errors: FEATURE_NOT_SUPPORTED.
 * - end_level: the subtransaction ends.  Its files become those of parent, or are removed if parent is
 *   InvalidSubTransactionId.
 * - end_transaction: the transaction ends.  Its files get their names, or are removed.
 */
extern void shard_reject_file_pre_prepare(void);
extern void shard_reject_file_end_level(SubTransactionId subid, SubTransactionId parent);
extern void shard_reject_file_end_transaction(bool committed);

#endif
