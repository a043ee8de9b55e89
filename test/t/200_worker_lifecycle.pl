# DESIGN "Living in someone's cluster": a worker that ends, by SIGTERM or by an error, is started again alone; pausing,
# the server's own barriers and a lost launcher disturb nobody.
use strict;
use warnings;
use Test::More;
use PostgreSQL::Test::Utils;
use FleetlogTest;

my $s = FleetlogTest->new('lifecycle', conf => "fleetlog.worker_retry = 100ms\n");
my $node = $s->node;
my @kinds = qw(keeper flusher confirmer appender auth reader);

sub pids
{
    my %pid = map { my ($role, $pid) = split /\|/; $role => $pid }
      split /\n/, $s->sql("SELECT kind || index, pid FROM fleetlog.stat_worker");
    return \%pid;
}

sub started { return $s->sql('SELECT pg_postmaster_start_time() || \' \' || pid FROM pg_stat_activity WHERE backend_type = \'checkpointer\''); }

# All roles but one keep their process.
sub others_unharmed
{
    my ($what, $before, $role) = @_;
    my $now = pids();
    my @changed = grep { $_ ne $role && ($now->{$_} // 0) != $before->{$_} } sort keys %$before;

    is(join(' ', @changed), '', "$what: all others keep their process");
    return;
}

sub all_run { $s->wait_for("SELECT count(*) = 10 FROM fleetlog.stat_worker WHERE state NOT LIKE 'starting%'"); return; }

all_run();
my $server = started();
$s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'fleetlog%'", '10', 'pg_stat_activity to show each process by its name');

# SIGTERM to each role.
for my $role ((map { "${_}0" } @kinds), 'front_door0', 'front_door1')
{
    my $before = pids();

    $s->sql("SELECT pg_terminate_backend($before->{$role})");
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_worker WHERE kind || index = '$role' AND pid <> $before->{$role} AND restarts > 0");
    all_run();
    others_unharmed("SIGTERM to $role", $before, $role);
}
is(started(), $server, 'the server itself was not restarted');

# An error: a cancelled query is one to a process that has a database.
{
    my $before = pids();
    my $at = -s $node->logfile;

    # Between two of its queries a cancel may find nothing to cancel.
    FleetlogTest::wait_until(
        sub {
            return 1 if slurp_file($node->logfile, $at) =~ /fleetlog keeper.*ERROR/;
            $s->sql("SELECT pg_cancel_backend($before->{keeper0})");
            return 0;
        },
        'the error of the keeper');
    all_run();
    others_unharmed('an error of the keeper', $before, 'keeper0');
    $before = pids();
    $s->sql("SELECT pg_cancel_backend($before->{$_}) ") for qw(flusher0 confirmer0 launcher0);
    $s->sql('SELECT pg_sleep(0.3)');
    others_unharmed('cancelling those that run no query', $before, '');
}

# The launcher is started again by the postmaster and takes over the workers that run.
{
    my $before = pids();

    $s->sql("SELECT pg_terminate_backend($before->{launcher0})");
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_worker WHERE kind = 'launcher' AND pid <> $before->{launcher0}");
    others_unharmed('SIGTERM to the launcher', $before, 'launcher0');
    $s->sql("SELECT pg_terminate_backend($before->{keeper0})");
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_worker WHERE kind = 'keeper' AND pid <> $before->{keeper0}");
    pass('the new launcher starts workers again that the old one had started');
    all_run();
}

# Barriers: CREATE and DROP DATABASE wait until every process has seen them.
{
    my $before = pids();

    # Whoever kept them waiting would do so for good.
    $node->safe_psql('postgres', "SET statement_timeout = '${FleetlogTest::TIMEOUT}s'; CREATE DATABASE passing_by");
    $node->safe_psql('postgres', "SET statement_timeout = '${FleetlogTest::TIMEOUT}s'; DROP DATABASE passing_by");
    others_unharmed('CREATE and DROP DATABASE of another database', $before, '');
}

# pause() and resume().
$s->sql('SELECT fleetlog.pause()');
is($s->sql("SELECT string_agg(kind, ' ') FROM fleetlog.stat_worker"), 'launcher', 'paused: pause() returns when all others are gone');
is($s->sql('SELECT paused FROM fleetlog.stat_server'), 't', 'and a view says so');
like($s->sql("SELECT state FROM fleetlog.stat_worker"), qr/paused/, 'and so does the launcher');
$node->safe_psql('postgres', 'CREATE DATABASE a_copy TEMPLATE fleetlog');
$node->safe_psql('postgres', 'ALTER DATABASE fleetlog RENAME TO renamed; ALTER DATABASE renamed RENAME TO fleetlog; DROP DATABASE a_copy');
pass('paused: the database can be a template and be renamed');
$s->sql('SELECT fleetlog.pause()');
is($s->sql("SELECT string_agg(kind, ' ') FROM fleetlog.stat_worker"), 'launcher', 'pausing twice is no error');
$s->sql('SELECT fleetlog.resume()');
all_run();
pass('resumed');

# Who may do that.
$s->sql('CREATE ROLE nobody; CREATE ROLE boss IN ROLE fleetlog_admin');
like($s->sql_error('SET ROLE nobody; SELECT fleetlog.pause()'), qr/42501/, 'pause() is not for everybody');
like($s->sql_error('SET ROLE nobody; SELECT * FROM fleetlog.stat_connection'), qr/42501/, 'nor are connections shown to everybody');
is($s->sql('SET ROLE boss; SELECT count(*) FROM fleetlog.stat_worker'), '10', 'fleetlog_admin sees the workers');

# A stop point holds back exactly who reaches it, and a shutdown is not held up by it.
$s->stop_points('keeper_turn');
$s->wait_stopped_at('keeper_turn');
is($s->sql("SELECT kind FROM fleetlog.stat_worker WHERE stop_point IS NOT NULL"), 'keeper', 'a process waits at its stop point');
$s->stop_points();
$s->wait_for("SELECT count(*) = 0 FROM fleetlog.stat_worker WHERE stop_point IS NOT NULL");
$s->stop_points('keeper_turn');
$s->wait_stopped_at('keeper_turn');

is($s->crashes, '', 'no crash');
my $at = -s $node->logfile;
$node->stop('fast');
unlike(slurp_file($node->logfile, $at), qr/fleetlog.*(ERROR|PANIC)/, 'a fast shutdown ends everybody without an error');
done_testing();
