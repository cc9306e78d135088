/*
 * shared_memory.c
 *	  Shared memory of the library.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

static List *areas = NIL;		/* List of const ShardSharedArea * */
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static Size
area_size(const ShardSharedArea *area)
{
	return add_size(area->size, mul_size(MaxBackends, area->size_of_backend));
}

static void
request_areas(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	foreach_ptr(const ShardSharedArea, area, areas)
	{
		RequestAddinShmemSpace(MAXALIGN(area_size(area)));
		if (area->init)
			RequestNamedLWLockTranche(area->name, 1);
	}
}

static void
attach_areas(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	foreach_ptr(const ShardSharedArea, area, areas)
	{
		bool		found;

		*area->address = ShmemInitStruct(area->name, area_size(area), &found);
		if (found)
			continue;
		memset(*area->address, 0, area_size(area));
		if (area->init)
			area->init(&GetNamedLWLockTranche(area->name)->lock);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
shard_shared_memory_request(const ShardSharedArea *area)
{
	MemoryContext oldcxt;

	if (!process_shared_preload_libraries_in_progress)
		return;
	if (areas == NIL)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_areas;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = attach_areas;
	}
	oldcxt = MemoryContextSwitchTo(TopMemoryContext);
	areas = lappend(areas, unconstify(ShardSharedArea *, area));
	MemoryContextSwitchTo(oldcxt);
}
