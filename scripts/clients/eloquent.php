<?php
// eloquent.php - Eloquent (Laravel) without the rest of Laravel: schema builder, models, relations, transactions, locks

foreach (['Container', 'Support', 'Database', 'Contracts', 'Collections', 'Macroable'] as $part) {
    $file = "Illuminate/$part/autoload.php";
    if (stream_resolve_include_path($file)) {
        require_once $file;
    }
}

use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Eloquent\Builder;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\QueryException;
use Illuminate\Database\Schema\Blueprint;

$capsule = new DB();
$address = ['driver' => 'pgsql', 'host' => '127.0.0.1', 'port' => getenv('PGPORT'), 'username' => getenv('PGUSER'), 'database' => getenv('PGDATABASE'), 'charset' => 'utf8', 'schema' => 'public'];
$capsule->addConnection($address);
$capsule->addConnection($address, 'second');
$capsule->setAsGlobal();
$capsule->bootEloquent();
$sharded = getenv('SHARDED') === 'yes';

function step(string $name, callable $action): void
{
    try {
        $answer = json_encode($action());
        echo "= $name: $answer\n";
    } catch (Throwable $e) {
        echo "= $name: ERROR ", preg_replace('/\s+/', ' ', get_class($e) . ' ' . $e->getMessage()), "\n";
    }
}

function error_of(callable $action): string
{
    try {
        $action();
        return 'no error';
    } catch (QueryException $e) {
        return (string) $e->getCode();
    }
}

function refused(string $name, string $wanted, callable $action): void
{
    global $sharded;
    if ($sharded) {
        $got = error_of($action);
        echo $got === $wanted ? "ok - refused: $name\n" : "not ok - refused: $name: $got, not $wanted\n";
    }
}

class Country extends Model
{
    protected $primaryKey = 'code';
    protected $keyType = 'string';
    public $incrementing = false;
    public $timestamps = false;
    protected $guarded = [];
}

class Account extends Model
{
    public $timestamps = false;
    protected $guarded = [];
    protected $casts = ['doc' => 'array'];

    public function orders()
    {
        return $this->hasMany(Order::class);
    }

    public function country()
    {
        return $this->belongsTo(Country::class, 'country_code', 'code');
    }
}

// Eloquent has no keys of two columns. The shard key is added to the condition of each save and delete.
class Order extends Model
{
    public $timestamps = false;
    protected $guarded = [];

    protected function setKeysForSaveQuery($query)
    {
        return parent::setKeysForSaveQuery($query)->where('account_id', $this->account_id);
    }

    public function account()
    {
        return $this->belongsTo(Account::class);
    }
}

$schema = DB::schema();
step('create', function () use ($schema) {
    $schema->create('countries', function (Blueprint $t) {
        $t->string('code', 2)->primary();
        $t->string('name');
    });
    $schema->create('accounts', function (Blueprint $t) {
        $t->id();
        $t->string('name');
        $t->jsonb('doc')->nullable();
        $t->string('country_code', 2)->nullable();
        $t->foreign('country_code')->references('code')->on('countries');
    });
    $schema->create('orders', function (Blueprint $t) {
        $t->foreignId('account_id')->constrained()->cascadeOnDelete();
        $t->bigInteger('id')->generatedAs();
        $t->decimal('total', 12, 2)->default(0);
        $t->string('state', 20)->default('new')->index();
        $t->primary(['account_id', 'id']);
    });
    return $schema->getColumnListing('orders');
});
if ($sharded) {
    DB::select("SELECT shardfdw.create_reference_table('countries')");
    DB::select("SELECT shardfdw.shard_tables('{accounts,orders}', 'account_id', shards => 4)");
}
step('later migrations', function () use ($schema) {
    $schema->table('orders', function (Blueprint $t) {
        $t->text('note')->default('none');
        $t->integer('rank')->nullable();
        $t->index(['account_id', 'note']);
        $t->unique(['account_id', 'id', 'state']);
    });
    $schema->table('orders', fn (Blueprint $t) => $t->dropColumn('rank'));
    DB::statement('ALTER TABLE orders ADD CONSTRAINT total_check CHECK (total >= 0)');
    DB::statement('CREATE INDEX CONCURRENTLY orders_total ON orders (total)');
    return [$schema->hasColumn('orders', 'note'), $schema->hasTable('orders'), $schema->getColumnListing('orders')];
});
refused('a unique key without the shard key', '0A000', fn () => $schema->table('orders', fn (Blueprint $t) => $t->unique('note')));
step('drop', function () use ($schema, $sharded) {
    $schema->create('later', fn (Blueprint $t) => $t->id());
    if ($sharded) {
        DB::select("SELECT shardfdw.shard_table('later', shards => 4)");
    }
    $schema->drop('later');
    return $schema->hasTable('later');
});

Country::insert([['code' => 'DE', 'name' => 'Germany'], ['code' => 'NZ', 'name' => 'New Zealand']]);
step('create a model', fn () => Account::create(['name' => 'one', 'doc' => ['a' => [1]], 'country_code' => 'DE']));
step('insert many', fn () => Account::insert(array_map(fn ($i) => ['name' => "n$i", 'country_code' => ['DE', 'NZ'][$i % 2]], range(0, 99))));
step('insert many orders', fn () => Order::insert(array_map(fn ($i) => ['account_id' => 1 + $i % 100, 'total' => $i], range(0, 299))));
step('find, save, refresh', function () {
    $account = Account::find(7);
    $account->name = 'seven';
    $account->save();
    return $account->refresh()->name;
});
step('create through a relation', fn () => Account::find(7)->orders()->create(['total' => 7])->refresh());
step('save with the shard key in the condition', function () {
    DB::enableQueryLog();
    $order = Order::where('account_id', 4)->orderBy('id')->first();
    $order->note = 'saved';
    $order->save();
    $log = DB::getQueryLog();
    DB::disableQueryLog();
    return [end($log)['query'], Order::where('note', 'saved')->count()];
});
step('upsert', fn () => [Order::upsert([['account_id' => 1, 'id' => 1, 'total' => 9], ['account_id' => 1, 'id' => 9000, 'total' => 9]], ['account_id', 'id'], ['total']), Order::where('account_id', 1)->orderBy('id')->pluck('total')]);
step('insertOrIgnore', fn () => Account::insertOrIgnore([['id' => 7, 'name' => 'x'], ['id' => 5000, 'name' => 'y']]));
step('firstOrCreate, updateOrCreate', fn () => [Account::firstOrCreate(['id' => 6000], ['name' => 'a'])->name, Account::firstOrCreate(['id' => 6000], ['name' => 'b'])->name, Account::updateOrCreate(['id' => 6000], ['name' => 'c'])->name]);
step('update, increment, delete', fn () => [Order::where('total', '<', 50)->update(['state' => 'old']), Order::where('account_id', 3)->increment('total', 5), Order::whereIn('account_id', [90, 91])->delete()]);
step('delete with ON DELETE CASCADE', fn () => [Account::find(89)->delete(), Order::where('account_id', 89)->count()]);
step('with', fn () => Account::with(['country', 'orders' => fn ($q) => $q->orderBy('id')])->whereIn('id', [1, 2, 3])->orderBy('id')->get());
step('withCount, has, whereHas', fn () => [Account::withCount('orders')->withSum('orders', 'total')->orderBy('id')->limit(3)->get(), Account::has('orders', '>=', 4)->count(), Account::whereHas('orders', fn (Builder $q) => $q->where('total', '>', 290))->count()]);
step('pages', fn () => [Order::where('state', 'new')->count(), Order::where('state', 'new')->orderByDesc('total')->orderBy('id')->forPage(3, 5)->get(['account_id', 'id']), Order::orderBy('account_id')->orderBy('id')->offset(5)->limit(5)->pluck('id')]);
step('aggregates', fn () => [Order::max('total'), Order::distinct()->count('state'), Order::selectRaw('state, count(*) AS n, sum(total) AS s')->groupBy('state')->havingRaw('count(*) > 1')->orderBy('state')->get()]);
step('chunkById, cursor', function () {
    $n = 0;
    Account::chunkById(30, function ($some) use (&$n) {
        $n += count($some);
    });
    return [$n, iterator_count(Order::orderBy('id')->cursor())];
});
step('rolled back', function () {
    try {
        DB::transaction(function () {
            Order::query()->update(['note' => 'gone']);
            throw new RuntimeException('stop');
        });
    } catch (RuntimeException $e) {
    }
    return Order::where('note', 'gone')->count();
});
step('savepoints', fn () => DB::connection()->transaction(function () {
    Account::create(['id' => 8001, 'name' => 'a']);
    $error = error_of(fn () => DB::connection()->transaction(fn () => Account::create(['id' => 8001, 'name' => 'b'])));
    Account::create(['id' => 8002, 'name' => 'c']);
    return [$error, Account::whereIn('id', [8001, 8002])->count()];
}));
step('errors', fn () => [error_of(fn () => Account::create(['id' => 1, 'name' => 'x'])), error_of(fn () => Order::create(['account_id' => 1, 'total' => -1])), error_of(fn () => Account::create(['name' => 'x', 'country_code' => '??']))]);
step('lockForUpdate, SKIP LOCKED', fn () => DB::connection()->transaction(function () {
    $first = Order::where('state', 'new')->orderBy('account_id')->orderBy('id')->limit(3)->lock('FOR UPDATE SKIP LOCKED')->pluck('id');
    $second = DB::connection('second')->table('orders')->where('state', 'new')->orderBy('account_id')->orderBy('id')->limit(3)->lock('FOR UPDATE SKIP LOCKED')->pluck('id');
    return [$first, $second, Account::where('id', 5)->lockForUpdate()->first()->name, Account::where('id', 6)->sharedLock()->first()->name];
}));
step('truncate', fn () => [DB::table('orders')->truncate(), Order::count()]);
