# C4, F, O1: a fleet of devices with good habits.  They reboot all at once, lose their connections, and lose the server by
# kill -9: each time all come back, none hammers, nothing acknowledged is lost, and the front doors' memory is as before.  What
# the server says (full, not known, taken over) makes them stay away.  Judged are counts; timings are not.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Fleet;

# The long run has the story's 2,000.
my $n = ($ENV{FLEETLOG_ROUNDS} // 3) >= 20 ? 2000 : 500;
my $extra = 20;
my $seed = $ENV{FLEETLOG_SEED} // 7;

my $s = FleetlogTest->new('fleet', conf => "fleetlog.max_connections = " . ($n + $extra) . "\n");
$s->sql("SELECT fleetlog.create_stream('telemetry', shards => 2); SELECT fleetlog.create_tenant('acme', 'acme/'); SELECT fleetlog.mount('acme/', 'telemetry')");
my $credentials = FleetlogTest::Fleet->register($s, 'credentials', 1, $n);
my $truth = PostgreSQL::Test::Utils::tempdir() . '/truth';

# Memory of the front doors' own, in kB.
sub door_memory
{
    my $sum = 0;
    for my $pid (split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door' AND pid IS NOT NULL"))
    {
        my $rollup = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/smaps_rollup");
        $sum += $1 if $rollup =~ /^Anonymous:\s+(\d+) kB/m;
    }
    return $sum;
}

my $fleet = FleetlogTest::Fleet->start($s, '-c', $n, '--credentials', $credentials, '--seed', $seed, '--truth', $truth, '--mqtt311', 20,
    '--boot', 3, '--base-pause', 0.2, '--cap', 6.4, '--stable', 0.5, '--interval', 2, '--mix', '60,35,5', '--binary', 30, '--connect-timeout', $FleetlogTest::TIMEOUT, '--drain', $FleetlogTest::TIMEOUT);
my $line = $fleet->wait_connected($n);
$line = $fleet->wait_for('subscribed', sub { $_[0] == $n }, 'every device to listen to its commands');
is($s->sql("SELECT count(DISTINCT identity) FROM fleetlog.stat_connection WHERE identity LIKE 'acme/d%'"), $n, 'the server knows each by its identity');
$fleet->wait_for('acked', sub { $_[0] >= $n }, 'readings to flow');

# A reboot of all, with reports going on.
my $before = door_memory();
my $was = $fleet->command('go');
is($was->{connected}, $n, 'all are connected before the reboot');
is($fleet->command('reboot all')->{devices}, $n, "$n devices reboot at once");
$line = $fleet->wait_connected($n, 'all to be back after the reboot');
is($line->{connects} - $was->{connects}, $n, 'all are back');
is($line->{attempts} - $was->{attempts}, $n, 'each with one attempt');
$fleet->wait_for('acked', sub { $_[0] >= $line->{acked} + $n }, 'readings to flow again');
my $after = door_memory();
cmp_ok($after, '<=', 1.1 * $before, "memory of the front doors: $before kB before, $after kB after");

# Some lose their connection without a word.
is($fleet->command('drop 30%')->{devices}, 3 * $n / 10, '30 % lose their connection');
$line = $fleet->wait_connected($n, 'these to be back');
my $lost = $line->{lost};

# All lose the server, and find nobody until they have failed three times each on average.
$s->kill9;
$fleet->wait_for('connected', sub { $_[0] == 0 }, 'the loss of the server to be noticed');
$fleet->wait_for('failed', sub { $_[0] >= $line->{failed} + 3 * $n }, 'failed attempts');
$s->start_after_crash;
$line = $fleet->wait_connected($n, 'all to be back after the crash');
is($line->{lost}, $lost + $n, 'the crash cost each device its connection once');
$fleet->wait_for('acked', sub { $_[0] >= $line->{acked} + $n }, 'readings to flow after the crash');

# A second fleet finds the place nearly full.
my $crowd = FleetlogTest::Fleet->start($s, '-c', 3 * $extra, '--credentials', $credentials, '--client-id', 'crowd-%d', '--boot', 0.2,
    '--base-pause', 3000, '--cap', 12000, '--mix', '1,0,0');
$crowd->wait_for('refused', sub { $_[0] >= 2 * $extra }, 'the crowd to be refused');
my $summary = $crowd->quit;
cmp_ok($summary->{busy}, '>=', 2 * $extra, 'who finds the server full takes it for busy');
cmp_ok($summary->{attempts}, '<', 4 * $extra, 'and stays away') or diag(JSON::PP::encode_json($summary));
$line = $fleet->command('go');
is($line->{connected}, $n, 'all of the fleet are still connected');
is($line->{lost}, $lost + $n, 'nobody who was connected has lost his place to the crowd');

$summary = $fleet->quit;
is($fleet->{status}, 0, 'the fleet ends with everything acknowledged');
is($summary->{pending}, 0, 'nothing is left over');
is($summary->{protocol_errors}, 0, 'no packet was out of place');
is($summary->{nacked} + $summary->{sub_refused}, 0, 'nothing was refused');
cmp_ok($summary->{attempts}, '<=', $summary->{boots} + $summary->{pauses}, 'no attempt without a boot or a pause before it');
my ($ok, $said) = $fleet->check_backoff($summary, '--devices', $n, '--outages', 2);
ok($ok, 'the pauses are those of full jitter') or diag($said);
note($said);
note(JSON::PP::encode_json($summary));

# The truth.
($ok, $said) = FleetlogTest::Fleet::check_truth($s, 'telemetry', $truth);
ok($ok, "nothing acknowledged is lost: $said");
is($s->density_faults, '', 'no hole, no step back in time');

# Wrong passwords.
my $wrong = PostgreSQL::Test::Utils::tempdir() . '/wrong';
PostgreSQL::Test::Utils::append_to_file($wrong, join '', map { "acme/d$_ wrong\n" } 1 .. 10);
my $strangers = FleetlogTest::Fleet->start($s, '-c', 10, '--credentials', $wrong, '--boot', 0.2, '--base-pause', 0.01, '--cap', 0.1, '--mix', '1,0,0');
$strangers->wait_for('denied', sub { $_[0] == 10 }, 'all to be refused');
$summary = $strangers->quit;
is($summary->{attempts}, 10, 'who is not known asks once, and then stays away for long');

# Somebody else takes the name.
my $one = FleetlogTest::Fleet->start($s, '-c', 1, '--credentials', $credentials, '--client-id', 'the-one', '--boot', 0.1, '--base-pause', 0.01, '--cap', 0.1, '--mix', '1,0,0');
$one->wait_connected(1);
my ($user, $password) = split ' ', (split /\n/, PostgreSQL::Test::Utils::slurp_file($credentials))[0];
my $other = $s->raw(version => 5);
is($other->login(client_id => 'the-one', user => $user, password => $password)->{reason}, 0, 'another client takes the session over');
$one->wait_for('taken_over', sub { $_[0] == 1 }, 'the take-over to be noticed');
$summary = $one->quit;
is($summary->{attempts}, 1, 'a session taken over is not fought over');

is($s->crashes, '', 'no process has crashed');
done_testing();
