/*
 * reject_file.c
 *	  A file on the server that becomes visible when the transaction that wrote it commits.
 *
 *	 open --> no name --(finish)--> path.tmp<pid>.<n>, pending --(commit)--> path
 *	   |                                                 |
 *	   +--(context reset)--> gone                        +--(abort)--> removed
 *
 * The other rows of the load are in the table only if the transaction commits.  So the file appears, and replaces an
 * older one, only then.  A file without a name disappears with the process that has it open, however that process
 * ends.  If the file system or kernel does not support such files, the file has its temporary name from the
 * beginning.  A crash then leaves the file behind.  Any other end of the backend runs the abort, which removes it.
 *
 * The descriptor is not from AllocateFile(): core closes those descriptors at the end of the transaction, before the
 * memory context that owns the rest is reset.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xact.h"
#include "lib/ilist.h"
#include "load/input/reject_file.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#define BUFFER_BYTES (64 * 1024)

/* The same umask as for COPY TO: S_IWGRP | S_IWOTH. */
#define FILE_UMASK (S_IWGRP | S_IWOTH)
#define FILE_MODE (S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)

struct ShardRejectFile
{
	MemoryContext cxt;
	const char *path;			/* final name, with symbolic links resolved */
	const char *temp_path;		/* current name; NULL: it is not a regular file, or ... */
	bool		unnamed;		/* ... it has no name yet */
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

static void
remove_file(const char *path)
{
	if (unlink(path) != 0 && errno != ENOENT)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}

void
shard_reject_file_end_transaction(bool commit)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending_files)
	{
		PendingFile *file = dlist_container(PendingFile, link, iter.cur);

		/* Removed from the list first, so that an error does not cause it to be processed twice. */
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

void
shard_reject_file_pre_prepare(void)
{
	if (!dlist_is_empty(&pending_files))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has written a REJECT_FILE")));
}

void
shard_reject_file_end_level(SubTransactionId subid, SubTransactionId parent)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending_files)
	{
		PendingFile *file = dlist_container(PendingFile, link, iter.cur);

		if (file->subid != subid)
			continue;
		if (parent != InvalidSubTransactionId)
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

/* Opens a file with the umask of COPY TO; -1 with errno set. */
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

/* Opens a file without a name in the directory of path.  It can get a name later. -1: not supported there. */
static int
open_unnamed(const char *path)
{
#ifdef O_TMPFILE
	char	   *folder = pstrdup(path);
	struct stat st;
	int			fd;

	get_parent_directory(folder);
	fd = open_file(folder, O_TMPFILE);
	if (fd >= 0 && lstat(psprintf("/proc/self/fd/%d", fd), &st) == 0)
		return fd;
	if (fd >= 0)
		(void) close(fd);
#endif
	return -1;
}

/*
 * Gives an unused name next to path to the file fd, or (fd -1) creates a new file with such a name.  False with errno
 * set.
 */
static bool
take_temp_path(ShardRejectFile *file)
{
	char	   *temp_path;
	int			n = 0;
	bool		taken;

	/* never use an existing file, which could be a link of another user */
	do
	{
		temp_path = psprintf("%s.tmp%d.%d", file->path, MyProcPid, n++);
		if (file->unnamed)
			taken = linkat(AT_FDCWD, psprintf("/proc/self/fd/%d", file->fd),
						   AT_FDCWD, temp_path, AT_SYMLINK_FOLLOW) == 0;
		else
		{
			file->fd = open_file(temp_path, O_CREAT | O_EXCL);
			taken = file->fd >= 0;
		}
	} while (!taken && errno == EEXIST && n < 1000);
	if (taken)
	{
		file->temp_path = temp_path;
		file->unnamed = false;
	}
	return taken;
}

/* Decides between a new file next to path (true) and path itself, and sets file->path. */
static bool
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
			return false;
		/* Renaming would replace a link instead of the file that it points to. */
		resolved = realpath(path, NULL);
		if (resolved != NULL)
		{
			file->path = pstrdup(resolved);
			free(resolved);
		}
	}
	return true;
}

ShardRejectFile *
shard_reject_file_open(MemoryContext cxt, const char *path)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardRejectFile *file = palloc0(sizeof(ShardRejectFile));
	bool		beside;

	file->cxt = cxt;
	file->fd = -1;
	file->buffer = palloc(BUFFER_BYTES);
	file->callback.func = drop_file;
	file->callback.arg = file;
	MemoryContextRegisterResetCallback(cxt, &file->callback);

	beside = choose_path(file, path);
	ReserveExternalFD();
	if (beside)
	{
		file->fd = open_unnamed(file->path);
		file->unnamed = file->fd >= 0;
		if (!file->unnamed)
			(void) take_temp_path(file);
	}
	else
		file->fd = open_file(file->path, 0);
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
	MemoryContext oldcxt = MemoryContextSwitchTo(file->cxt);
	int			fd = file->fd;

	write_buffer(file);
	if (file->unnamed && !take_temp_path(file))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", file->path)));
	MemoryContextSwitchTo(oldcxt);
	/* the rows of the load are on disk when it has committed, so the rejected rows must be, too */
	if (file->temp_path != NULL && pg_fsync(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", file->temp_path)));
	file->fd = -1;
	ReleaseExternalFD();
	if (close(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m",
						file->temp_path ? file->temp_path : file->path)));

	if (file->temp_path != NULL)
	{
		PendingFile *pending;

		MemoryContextSwitchTo(TopTransactionContext);
		pending = palloc(sizeof(PendingFile));
		pending->subid = GetCurrentSubTransactionId();
		pending->path = pstrdup(file->path);
		pending->temp_path = pstrdup(file->temp_path);
		dlist_push_tail(&pending_files, &pending->link);
		MemoryContextSwitchTo(oldcxt);
	}
	file->finished = true;
}
