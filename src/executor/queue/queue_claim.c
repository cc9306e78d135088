/*
 * queue_claim.c
 *	  Claims: rows that sessions of this server are about to take from a queue.
 *
 * Workers that read the first rows of a queue at the same time read the same rows.  When one of
 * them asks a node to lock a row, another one may have taken it, and the message was useless.  So a
 * session first claims the row that it is going to lock:
 *
 *	 free --begin--> claimed --end of the transaction--> free
 *					   | changed
 *					   +------------commit-------------> gone
 *
 * A claim has the same effect as a lock, but is held a little longer at both ends: other sessions
 * skip the row.  A row that is gone has no such version any more, so sessions that have read it
 * before skip it, too.  A session that only wants a shared lock claims nothing, and also tries rows
 * that others have claimed.
 *
 * Nothing else relies on claims: nodes decide which session gets a row.  So if there is no room for
 * a claim, it is omitted.  Entries of rows that are gone are reused, the oldest first.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "compat.h"
#include "executor/queue/queue_claim.h"
#include "miscadmin.h"
#include "shared_memory.h"
#include "storage/lwlock.h"

#define NBUCKETS 256
#define BUCKET_SIZE 8			/* entries where a row may be stored */
#define MAX_OWN 256				/* claims of one session */

typedef struct Claim
{
	ShardClaimRow row;
	Oid			dboid;
	int			pid;			/* the session that has claimed it; 0: none */
	uint64		gone_at;		/* 0: the entry is free, if pid is 0 */
} Claim;

typedef struct ClaimShared
{
	LWLock	   *lock;
	uint64		moment;			/* incremented when a row is gone */
	Claim		claims[NBUCKETS][BUCKET_SIZE];
} ClaimShared;

typedef struct OwnClaim
{
	Claim	   *claim;
	int			level;			/* nesting level */
	bool		changed;
} OwnClaim;

static ClaimShared *shared = NULL;
static OwnClaim own[MAX_OWN];
static int	nown = 0;

static bool
is_row(const Claim *claim, const ShardClaimRow *row)
{
	return claim->row.relid == row->relid && claim->row.xmin == row->xmin && claim->dboid == MyDatabaseId &&
		ItemPointerEquals(unconstify(ItemPointerData *, &claim->row.ctid), unconstify(ItemPointerData *, &row->ctid));
}

static Claim *
bucket_of(const ShardClaimRow *row)
{
	uint32		hash = hash_combine(murmurhash32(row->relid), murmurhash32(ItemPointerGetBlockNumber(&row->ctid) * 300 +
																			ItemPointerGetOffsetNumber(&row->ctid)));

	return shared->claims[hash % NBUCKETS];
}

uint64
shard_claim_now(void)
{
	uint64		moment;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	moment = shared->moment;
	LWLockRelease(shared->lock);
	return moment;
}

/* Must a session that read the row at moment since skip it? */
static bool
is_taken(const Claim *claim, uint64 since)
{
	return claim->pid != 0 ? claim->pid != MyProcPid : claim->gone_at > since;
}

bool
shard_claim_begin(const ShardClaimRow *row, uint64 since)
{
	Claim	   *bucket;
	Claim	   *place = NULL;
	bool		taken = false;

	if (shared == NULL)
		return true;
	bucket = bucket_of(row);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < BUCKET_SIZE; i++)
	{
		if (is_row(&bucket[i], row) && (bucket[i].pid != 0 || bucket[i].gone_at != 0))
		{
			taken = is_taken(&bucket[i], since);
			place = bucket[i].pid == 0 ? &bucket[i] : NULL;
			break;
		}
		if (bucket[i].pid == 0 && (place == NULL || bucket[i].gone_at < place->gone_at))
			place = &bucket[i];
	}
	if (!taken && place != NULL && nown < MAX_OWN)
	{
		place->row = *row;
		place->dboid = MyDatabaseId;
		place->pid = MyProcPid;
		place->gone_at = 0;
		own[nown++] = (OwnClaim) {place, GetCurrentTransactionNestLevel(), false};
	}
	LWLockRelease(shared->lock);
	return !taken;
}

/* Ends claim number i, but keeps its entry in the session's array. */
static void
end_claim(int i, bool gone)
{
	Claim	   *claim = own[i].claim;

	claim->pid = 0;
	claim->gone_at = gone ? ++shared->moment : 0;
}

void
shard_claim_end(const ShardClaimRow *row, bool changed)
{
	for (int i = 0; i < nown; i++)
	{
		if (!is_row(own[i].claim, row))
			continue;
		own[i].changed = changed;
		if (!changed)
		{
			LWLockAcquire(shared->lock, LW_EXCLUSIVE);
			end_claim(i, false);
			LWLockRelease(shared->lock);
			own[i] = own[--nown];
		}
		return;
	}
}

/* Ends the claims of nesting levels from level on. */
static void
end_claims(int level, bool committed)
{
	int			nleft = 0;

	if (nown == 0)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < nown; i++)
	{
		if (own[i].level < level)
			own[nleft++] = own[i];
		else
			end_claim(i, committed && own[i].changed);
	}
	LWLockRelease(shared->lock);
	nown = nleft;
}

void
shard_claim_end_transaction(bool committed)
{
	end_claims(0, committed);
}

void
shard_claim_end_level(int level, bool committed)
{
	if (!committed)
		end_claims(level, false);
	for (int i = 0; i < nown; i++)
		own[i].level = Min(own[i].level, level - 1);
}

/* ---------- shared memory ---------- */

static void
init_shared(LWLock *lock)
{
	shared->lock = lock;
}

static const ShardSharedArea shared_area = {"shardfdw_claims", sizeof(ClaimShared), 0, (void **) &shared, init_shared};

void
shard_claim_init(void)
{
	shard_shared_memory_request(&shared_area);
}
