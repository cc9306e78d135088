/*
 * reject_file.h
 *	  A file on the server that becomes visible when the transaction that wrote it commits.
 */
#ifndef SHARDFDW_REJECT_FILE_H
#define SHARDFDW_REJECT_FILE_H

#include "postgres.h"

typedef struct ShardRejectFile ShardRejectFile;

/*
 * Starts to write path, which is absolute.  The bytes go to a new file beside it,
 * which has no name until finish, or else "path.tmp<pid>.<n>".  A path that is not a
 * regular file (a device, a pipe) is written to directly.  Memory: in cxt; its reset
 * closes the file and removes it when finish was not called.  Errors: as COPY TO.
 */
extern ShardRejectFile *shard_reject_file_open(MemoryContext cxt, const char *path);

extern void shard_reject_file_write(ShardRejectFile *file, const char *bytes, size_t nbytes);

/*
 * Writes what is left and closes the file.  It gets its name, replacing an existing
 * file, when the transaction commits.  It is removed when the transaction, or the
 * subtransaction that is current now, aborts.
 */
extern void shard_reject_file_finish(ShardRejectFile *file);

/*
 * PREPARE TRANSACTION begins: raises when files wait for the end of the transaction.  Errors: FEATURE_NOT_SUPPORTED.
 * The subtransaction ends: its files become those of parent, or are removed if that is InvalidSubTransactionId.
 * The transaction ends: its files get their names, or are removed.
 */
extern void shard_reject_file_pre_prepare(void);
extern void shard_reject_file_end_level(SubTransactionId subid, SubTransactionId parent);
extern void shard_reject_file_end_transaction(bool committed);

#endif
