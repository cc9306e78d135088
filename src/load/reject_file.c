/*
 * reject_file.c
 *	  A file on the server that shows up when the transaction that wrote it commits.
 *
 *	 open --> path.tmp<pid>.<n> --(finish)--> pending --(commit)--> path
 *	   |                                         |
 *	   +--(context reset)--> removed             +--(abort)--> removed
 *
 * The rows that the file lacks are in the table if and only if the transaction
 * commits; so the file is there, and replaces an older one, only then.  A crash
 * leaves the file under its first name.  Other ends of the backend run the abort.
 *
 * The descriptor is kept by itself, not among those of AllocateFile(): these are
 * closed at the end of the transaction, before the memory context is reset
 * which owns the rest.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xact.h"
#include "lib/ilist.h"
#include "load/reject_file.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#define BUFFER_BYTES (64 * 1024)

/* As COPY TO: its umask is S_IWGRP | S_IWOTH. */
#define FILE_UMASK (S_IWGRP | S_IWOTH)
#define FILE_MODE (S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)

struct ShardRejectFile
{
	const char *path;			/* as it will be named; symbolic links resolved */
	const char *temp_path;		/* as it is named now; NULL: is no regular file */
	int			fd;				/* -1: closed */
	bool		finished;
	char	   *buffer;
	size_t		nbuffered;
	MemoryContextCallback callback;
};

/* A file that waits for the end of its transaction; in TopTransactionContext. */
typedef struct PendingFile
{
	dlist_node	link;
	SubTransactionId subid;
	const char *path;
	const char *temp_path;
} PendingFile;

static dlist_head pending_files = DLIST_STATIC_INIT(pending_files);
static bool registered = false;

static void
remove_file(const char *path)
{
	if (unlink(path) != 0 && errno != ENOENT)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}

static void
settle_files(bool commit)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending_files)
	{
		PendingFile *file = dlist_container(PendingFile, link, iter.cur);

		/* First, so that nothing is done twice should an error come up. */
		dlist_delete(iter.cur);
		if (!commit)
			remove_file(file->temp_path);
		else if (rename(file->temp_path, file->path) != 0)
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not rename file \"%s\" to \"%s\": %m",
							file->temp_path, file->path)));
	}
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			settle_files(true);
			break;
		case XACT_EVENT_ABORT:
			settle_files(false);
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (!dlist_is_empty(&pending_files))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has written a REJECT_FILE")));
			break;
		default:
			break;
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	dlist_foreach_modify(iter, &pending_files)
	{
		PendingFile *file = dlist_container(PendingFile, link, iter.cur);

		if (file->subid != subid)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			file->subid = parent;
		else
		{
			dlist_delete(iter.cur);
			remove_file(file->temp_path);
		}
	}
}

static void
drop_file(void *arg)
{
	ShardRejectFile *file = arg;

	if (file->fd >= 0)
	{
		(void) close(file->fd);
		file->fd = -1;
		ReleaseExternalFD();
	}
	if (!file->finished && file->temp_path != NULL)
	{
		file->finished = true;
		remove_file(file->temp_path);
	}
}

/* Opens with COPY TO's umask; -1 with errno set. */
static int
open_file(const char *path, int flags)
{
	mode_t		oldmask = umask(FILE_UMASK);
	int			fd = BasicOpenFilePerm(path, flags | O_WRONLY | PG_BINARY, FILE_MODE);
	int			save_errno = errno;

	umask(oldmask);
	errno = save_errno;
	return fd;
}

/*
 * Decides between a new file beside path and path itself, and fills path and
 * temp_path.  Returns the flags to open it with.
 */
static int
choose_path(ShardRejectFile *file, const char *path)
{
	struct stat st;

	file->path = pstrdup(path);
	if (stat(path, &st) == 0)
	{
		char	   *resolved;

		if (S_ISDIR(st.st_mode))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is a directory", path)));
		if (!S_ISREG(st.st_mode))
			return 0;
		/* Renaming would put the file in the place of a link, not of what it points to. */
		resolved = realpath(path, NULL);
		if (resolved != NULL)
		{
			file->path = pstrdup(resolved);
			free(resolved);
		}
	}
	/* Never takes a file that is there: it could be a link laid by somebody else. */
	return O_CREAT | O_EXCL;
}

ShardRejectFile *
shard_reject_file_open(MemoryContext cxt, const char *path)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardRejectFile *file = palloc0(sizeof(ShardRejectFile));
	int			flags;

	if (!registered)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		RegisterSubXactCallback(at_subtransaction_end, NULL);
		registered = true;
	}

	file->fd = -1;
	file->buffer = palloc(BUFFER_BYTES);
	file->callback.func = drop_file;
	file->callback.arg = file;
	MemoryContextRegisterResetCallback(cxt, &file->callback);

	flags = choose_path(file, path);
	ReserveExternalFD();
	if (flags & O_CREAT)
	{
		char	   *temp_path;
		int			n = 0;

		do
		{
			temp_path = psprintf("%s.tmp%d.%d", file->path, MyProcPid, n++);
			file->fd = open_file(temp_path, flags);
		} while (file->fd < 0 && errno == EEXIST && n < 1000);
		if (file->fd >= 0)
			file->temp_path = temp_path;
	}
	else
		file->fd = open_file(file->path, flags);
	if (file->fd < 0)
	{
		int			save_errno = errno;

		ReleaseExternalFD();
		errno = save_errno;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\" for writing: %m", path),
				 errhint("REJECT_FILE is written by the PostgreSQL server process. REJECT_TABLE takes rejected rows without a file.")));
	}
	MemoryContextSwitchTo(oldcxt);
	return file;
}

static void
write_bytes(ShardRejectFile *file, const char *bytes, size_t nbytes)
{
	while (nbytes > 0)
	{
		ssize_t		n;

		CHECK_FOR_INTERRUPTS();
		errno = 0;
		n = write(file->fd, bytes, Min(nbytes, 1024 * 1024));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (errno == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to file \"%s\": %m",
							file->temp_path ? file->temp_path : file->path)));
		}
		bytes += n;
		nbytes -= n;
	}
}

static void
write_buffer(ShardRejectFile *file)
{
	size_t		nbytes = file->nbuffered;

	file->nbuffered = 0;
	write_bytes(file, file->buffer, nbytes);
}

void
shard_reject_file_write(ShardRejectFile *file, const char *bytes, size_t nbytes)
{
	if (nbytes > BUFFER_BYTES - file->nbuffered)
		write_buffer(file);
	if (nbytes > BUFFER_BYTES)
		write_bytes(file, bytes, nbytes);
	else
	{
		memcpy(file->buffer + file->nbuffered, bytes, nbytes);
		file->nbuffered += nbytes;
	}
}

void
shard_reject_file_finish(ShardRejectFile *file)
{
	int			fd = file->fd;

	write_buffer(file);
	file->fd = -1;
	ReleaseExternalFD();
	if (close(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m",
						file->temp_path ? file->temp_path : file->path)));

	if (file->temp_path != NULL)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(TopTransactionContext);
		PendingFile *pending = palloc(sizeof(PendingFile));

		pending->subid = GetCurrentSubTransactionId();
		pending->path = pstrdup(file->path);
		pending->temp_path = pstrdup(file->temp_path);
		dlist_push_tail(&pending_files, &pending->link);
		MemoryContextSwitchTo(oldcxt);
	}
	file->finished = true;
}
