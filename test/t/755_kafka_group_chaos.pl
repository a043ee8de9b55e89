# K2: a consumer group whose members, of two client libraries, join, leave and are killed at random while records come:
# each record is processed at least once, no partition has two owners in a generation, committed offsets never go back.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use FleetlogTest;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_group_chaos', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.kafka_rebalance_delay = 200ms
fleetlog.kafka_session_timeout_min = 1s
CONF
my $shards = 6;
$s->sql(<<SQL);
SELECT fleetlog.create_stream('chaos', shards => $shards);
CREATE TABLE public.went_back (consumer text, shard int, was bigint, is_now bigint);
CREATE FUNCTION public.note_step_back() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	IF NEW.log_offset < OLD.log_offset THEN
		INSERT INTO public.went_back VALUES (OLD.consumer, OLD.shard, OLD.log_offset, NEW.log_offset);
	END IF;
	RETURN NEW;
END \$\$;
CREATE TRIGGER note_step_back BEFORE UPDATE ON fleetlog.consumer_position FOR EACH ROW EXECUTE FUNCTION public.note_step_back();
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 1, 'the Kafka door');

srand($ENV{FLEETLOG_SEED} // 42);
my $dir = tempdir(CLEANUP => 1);
my ($script) = map { s/[^\/]*$/FleetlogTest\/kafka_group_member.py/r } __FILE__;
my @libraries = ('confluent', 'kafka');
my @live;                       # { pid, library }
my $started = 0;
sub start_member
{
    my $library = $libraries[ $started % 2 ];
    my $file = "$dir/$started";
    my $pid = fork // die "fork: $!";
    if ($pid == 0)
    {
        open STDOUT, '>', "$file.out" or die;
        open STDERR, '>&', \*STDOUT or die;
        exec '/usr/bin/python3', $script, $library, "127.0.0.1:$port", 'chaos', 'chaos', $file, 'range' or die;
    }
    push @live, { pid => $pid, library => $library };
    $started++;
    return;
}
sub end_member
{
    my ($signal) = @_;
    my $m = splice @live, int(rand @live), 1;
    kill $signal, $m->{pid};
    waitpid $m->{pid}, 0;
    return;
}
END { my $status = $?; kill 'KILL', map { $_->{pid} } @live; $? = $status; }

my $sent = 0;
sub append
{
    my ($n) = @_;
    $s->sql("SELECT count(fleetlog.append('chaos', 'k' || i, i::text::bytea, shard => i % $shards)) FROM generate_series($sent + 1, $sent + $n) i");
    $sent += $n;
    return;
}
sub processed
{
    my %seen;
    my $lines = 0;
    for my $file (glob "$dir/*")
    {
        next if $file =~ /\.out$/;
        open my $in, '<', $file or die;
        while (<$in>) { $seen{ (split)[2] }++; $lines++; }
    }
    return (scalar(keys %seen), $lines);
}
my $shared = 0;
sub look
{
    $shared += $s->sql(<<'SQL');
SELECT count(*) FROM (
	SELECT FROM fleetlog.stat_group_member m, jsonb_each(m.assignment) a (topic, partitions), jsonb_array_elements(a.partitions) p (n)
	GROUP BY m.name, m.generation, a.topic, p.n HAVING count(*) > 1) twice
SQL
    return;
}

start_member() for 1 .. 3;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_group_member WHERE name = 'chaos' AND state = 'Stable' AND assignment IS NOT NULL", 3, 'three members to be in');
my $generations = $s->sql("SELECT max(generation) FROM fleetlog.stat_group WHERE name = 'chaos'");
for my $step (1 .. 8)
{
    my $dice = rand;
    append(60);
    if (@live < 2 || (@live < 5 && $dice < 0.4)) { start_member(); }
    else { end_member($dice < 0.75 ? 'KILL' : 'TERM'); }
    # Some of it is processed while the group is on its way from one generation to the next.
    my ($before) = processed();
    FleetlogTest::wait_until(sub { look(); my ($now) = processed(); return $now > $before || $now == $sent }, "records to be processed in step $step");
}
start_member() while @live < 2;
append(60);
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_group WHERE name = 'chaos'", 0, 'the group to have committed everything');
look();
my ($seen, $lines) = processed();
is($seen, $sent, 'each record was processed');
note("$started members in all, $lines records processed for $sent");
cmp_ok($s->sql("SELECT max(generation) FROM fleetlog.stat_group WHERE name = 'chaos'"), '>', $generations + 4, 'through several generations');
is($shared, 0, 'no partition had two owners in one generation');
is($s->sql('SELECT count(*) FROM public.went_back'), 0, 'no committed offset went back');
end_member('TERM') while @live;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_group_member WHERE name = 'chaos'", 0, 'all have left');
is($s->crashes, '', 'no process crashed');
done_testing();
