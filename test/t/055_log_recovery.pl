# L12, of the access method alone: crash recovery after every kind of write, torn pages, wal_consistency_checking on a
# standby, pages that were never written, and tails that survive.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('recovery', no_wait => 1, conf => <<'CONF');
wal_consistency_checking = 'all'
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 4GB
CONF
my $standby = $s->new_standby('standby1');
$standby->node->start;
my @streams = qw(plain lz zs);
$s->sql("SELECT fleetlog.create_stream('plain', compression => 'none'), fleetlog.create_stream('lz', shards => 2), fleetlog.create_stream('zs', compression => 'zstd')");

my $sum = 'SELECT * FROM (' . join(' UNION ALL ', map {
    "SELECT '$_' AS st, shard, count(*), max(log_offset), md5(string_agg(t::text, '|' ORDER BY log_offset)) FROM $_ t GROUP BY shard" } @streams) . ') u ORDER BY 1, 2';
my $tails = "SELECT fleetlog.tail('plain', 0), fleetlog.tail('lz', 0), fleetlog.tail('lz', 1), fleetlog.tail('zs', 0)";

# Each write, then a crash, then the same on the standby; checkpoints fall before some and not before others.
my @steps = (
    [ 'single rows', "SELECT count(fleetlog.append(st::regclass, 'k' || n, convert_to('v' || n, 'UTF8'))) FROM generate_series(1, 200) n, unnest(ARRAY['plain', 'lz', 'zs']) st" ],
    [ 'one transaction each', join '; ', map { "SELECT fleetlog.append('plain', 'k', 'single $_')" } 1 .. 30 ],
    [ 'large records', "SELECT count(fleetlog.append(st::regclass, 'big', decode((SELECT string_agg(md5((n * i)::text), '') FROM generate_series(1, 4000) i), 'hex'))) FROM generate_series(1, 5) n, unnest(ARRAY['plain', 'lz', 'zs']) st" ],
    [ 'very large record', "SELECT fleetlog.append('plain', 'huge', decode((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 40000) i), 'hex'))" ],
    [ 'an abort in front of a commit', "BEGIN; SELECT count(fleetlog.append('plain', 'gone', repeat('x', n * 10)::bytea)) FROM generate_series(1, 100) n; ROLLBACK; SELECT fleetlog.append('plain', 'kept', 'after an abort')" ],
    [ 'a large abort', "BEGIN; SELECT fleetlog.append('plain', 'gone', decode((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 20000) i), 'hex')); ROLLBACK; SELECT fleetlog.append('plain', 'kept', 'after a large abort')" ],
    [ 'savepoints', "BEGIN; SELECT fleetlog.append('plain', 'kept', '1'); SAVEPOINT a; SELECT count(fleetlog.append('plain', 'gone', 'x')) FROM generate_series(1, 20); ROLLBACK TO a; SELECT fleetlog.append('plain', 'kept', '2'); SAVEPOINT b; SELECT fleetlog.append('plain', 'kept', '3'); RELEASE b; COMMIT" ],
    [ 'COPY with explicit offsets', "DO \$\$ DECLARE t bigint := fleetlog.tail('plain', 0); BEGIN INSERT INTO plain (shard, log_offset, ts, key, payload) SELECT 0, t + n, clock_timestamp(), 'copied', convert_to(repeat('y', n), 'UTF8') FROM generate_series(0, 499) n; END \$\$" ],
    [ 'VACUUM FREEZE', 'VACUUM (FREEZE) plain; VACUUM (FREEZE) lz' ],
    [ 'appends behind frozen pages', "SELECT count(fleetlog.append(st::regclass, 'f', 'x')) FROM generate_series(1, 50) n, unnest(ARRAY['plain', 'lz', 'zs']) st" ],
    [ 'VACUUM FULL', 'VACUUM FULL zs' ],
    [ 'appends behind it', "SELECT fleetlog.append('zs', 'after full', 'x')" ]);

for my $i (0 .. $#steps)
{
    my ($name, $sql) = @{ $steps[$i] };
    $s->sql('CHECKPOINT') if $i % 2;
    $s->set_conf(full_page_writes => $i % 3 ? 'on' : 'off');
    $s->sql($sql);
    my ($rows, $ends) = ($s->sql($sum), $s->sql($tails));
    $s->kill9_and_start(no_wait => 1);
    is($s->sql($sum), $rows, "$name: the same rows after kill -9");
    is($s->sql($tails), $ends, "$name: the same tails");
    $s->catch_up($standby);
    is($standby->sql_on_standby($sum), $rows, "$name: the same rows on the standby");
}

# An unfinished transaction at the crash leaves nothing and no hole.
my $open = $s->session;
$open->query("BEGIN; SELECT count(fleetlog.append('plain', 'open', 'x')) FROM generate_series(1, 100)");
$s->sql('CHECKPOINT');
my $rows = $s->sql($sum);
$s->kill9;
$open->quit;
$s->start_after_crash(no_wait => 1);
is($s->sql($sum), $rows, 'an open transaction leaves nothing');
my $next = $s->sql("SELECT fleetlog.tail('plain', 0)");
is($s->sql("SELECT (fleetlog.append('plain', 'next', 'x')).log_offset"), $next, 'and no hole');

# Torn pages: what was written since the checkpoint is damaged on disk; recovery has full page images to mend it.
$s->set_conf(full_page_writes => 'on');
$s->sql("SELECT fleetlog.append('plain', 'before', 'x'); CHECKPOINT; SELECT count(fleetlog.append('plain', 'torn', convert_to(repeat(n::text, 30), 'UTF8'))) FROM generate_series(1, 500) n");
$rows = $s->sql($sum);
# Behind the last written page lie pages that the file was made longer by ahead of need; no crash can tear those.
my ($path, $last, $blocks) = split(/\|/, $s->sql("SELECT pg_relation_filepath(tableoid::regclass), (ctid::text::point)[0], pg_relation_size(tableoid) / 8192 FROM plain ORDER BY log_offset DESC LIMIT 1"));
cmp_ok($blocks, '>', $last, 'the last record lies in the file');
$path = $s->node->data_dir . "/$path";
$s->kill9;
open my $f, '+<:raw', $path or die "$path: $!";
for my $block ($last - 2 .. $last)
{
    seek $f, $block * 8192 + 4096, 0;
    print $f "\xa5" x 4096;
}
close $f;
$s->start_after_crash(no_wait => 1);
my ($rc, $out, $err) = $s->node->psql('fleetlog', $sum);
is($out, $rows, 'torn pages are mended') or diag($err);

$s->catch_up($standby);
is($standby->sql_on_standby($sum), $s->sql($sum), 'the standby is equal at the end');
is($s->density_faults($_), '', "$_: offsets dense, time in order") for @streams;
unlike(PostgreSQL::Test::Utils::slurp_file($_->node->logfile), qr/inconsistent page/, 'consistency checking found nothing') for $s, $standby;
is($s->crashes . $standby->crashes, '', 'no crash');
$standby->node->stop;
$s->node->stop;
done_testing();
