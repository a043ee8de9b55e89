# L3, X2: pg_upgrade carries streams with their offsets, by copies and by links of the files; during it no worker of ours
# is at work.  The old server is of the same version, unless FLEETLOG_OLD_SERVER names the installation of another one
# (script/matrix does).  FLEETLOG_UPGRADE_MODE names the only mode to try.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $old_server = $ENV{FLEETLOG_OLD_SERVER};
my $user = getpwuid $>;
my $sum = 'SELECT shard, count(*), md5(string_agg(t::text, \'|\' ORDER BY log_offset)) FROM telemetry t GROUP BY shard ORDER BY shard';
my $tails = "SELECT fleetlog.tail('telemetry', 0), fleetlog.tail('telemetry', 1)";

for my $mode (defined $ENV{FLEETLOG_UPGRADE_MODE} ? $ENV{FLEETLOG_UPGRADE_MODE} : qw(copy link))
{
    my $s = FleetlogTest->new("old_$mode", no_checksums => 1, install_path => $old_server);

    $s->fleet(shards => 2, devices => 1);
    $s->sql("SELECT count(fleetlog.append('telemetry', 'k' || n, convert_to(repeat(n::text, 20), 'UTF8'))) FROM generate_series(1, 500) n");
    is($s->device('d1')->publish_acked('acme/d1/t', 'before'), 0, "$mode: published before");
    my ($rows, $ends) = ($s->sql($sum), $s->sql($tails));

    my $t = FleetlogTest->new("new_$mode", no_checksums => 1, no_start => 1);
    my ($old, $new) = ($s->node, $t->node);
    ok($old->pg_version < $new->pg_version, "$mode: from " . $old->pg_version . ' to ' . $new->pg_version) if defined $old_server;
    $old->stop;
    my $dir = PostgreSQL::Test::Utils::tempdir();
    chdir $dir or die $!;
    my $socket = PostgreSQL::Test::Utils::tempdir_short();
    PostgreSQL::Test::Utils::command_ok([ 'pg_upgrade', '--no-sync', ($mode eq 'copy' ? () : "--$mode"), '-d', $old->data_dir, '-D', $new->data_dir,
            '-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'), '-s', $socket, '-p', $old->port, '-P', $new->port, '-U', $user ],
        "$mode: pg_upgrade") or diag(`cat $dir/*.log @{[ $new->data_dir ]}/pg_upgrade_output.d/*/log/*.log 2>/dev/null | tail -60`);
    unlike(PostgreSQL::Test::Utils::slurp_file($old->logfile), qr/TRAP|PANIC/, "$mode: no crash in the old cluster");
    $new->start;
    $t->wait_for_mqtt;
    is($t->sql($sum), $rows, "$mode: rows are equal");
    is($t->sql($tails), $ends, "$mode: tails are equal");
    is($t->device('d1')->publish_acked('acme/d1/t', 'after'), 0, "$mode: a device is served after the upgrade");
    is($t->sql("SELECT (fleetlog.append('telemetry', 'k1', 'by SQL')).log_offset > 0"), 't', "$mode: SQL appends after the upgrade");
    is($t->density_faults, '', "$mode: offsets dense, time in order");
    is($t->crashes, '', "$mode: no crash");
    $new->stop;
}
done_testing();
