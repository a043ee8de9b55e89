# L3, X2: pg_upgrade carries streams with their offsets; during it no worker of ours is at work.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('old');
$s->fleet(shards => 2, devices => 1);
$s->sql("SELECT count(fleetlog.append('telemetry', 'k' || n, convert_to(repeat(n::text, 20), 'UTF8'))) FROM generate_series(1, 500) n");
is($s->device('d1')->publish_acked('acme/d1/t', 'before'), 0, 'published before');
my $sum = 'SELECT shard, count(*), md5(string_agg(t::text, \'|\' ORDER BY log_offset)) FROM telemetry t GROUP BY shard ORDER BY shard';
my $tails = "SELECT fleetlog.tail('telemetry', 0), fleetlog.tail('telemetry', 1)";
my ($rows, $ends) = ($s->sql($sum), $s->sql($tails));

my $t = FleetlogTest->new('new', no_start => 1);
my ($old, $new) = ($s->node, $t->node);
$old->stop;
my $bin = $old->config_data('--bindir');
my $dir = PostgreSQL::Test::Utils::tempdir();
chdir $dir or die $!;
my $socket = PostgreSQL::Test::Utils::tempdir_short();
my $user = getpwuid $>;
PostgreSQL::Test::Utils::command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin, '-s', $socket,
        '-p', $old->port, '-P', $new->port, '-U', $user ], 'pg_upgrade') or diag(`cat $dir/*.log @{[ $new->data_dir ]}/pg_upgrade_output.d/*/log/*.log 2>/dev/null | tail -60`);
unlike(PostgreSQL::Test::Utils::slurp_file($old->logfile) , qr/TRAP|PANIC/, 'no crash in the old cluster');
$new->start;
$t->wait_for_mqtt;
is($t->sql($sum), $rows, 'rows are equal');
is($t->sql($tails), $ends, 'tails are equal');
is($t->device('d1')->publish_acked('acme/d1/t', 'after'), 0, 'a device is served after the upgrade');
is($t->density_faults, '', 'offsets dense, time in order');
is($t->crashes, '', 'no crash');
$new->stop;
done_testing();
