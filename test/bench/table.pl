#!/usr/bin/perl
# table.pl: turns the JSON objects that fl_load prints into the tables of script/bench.
#
# usage: table.pl head
#        table.pl row SCENARIO PARTY FILE [name=value]...   one line; the pairs are added to the object in FILE
#        table.pl ratios FOLDER                             our rate against Mosquitto's, scenario by scenario
#
# FILE is FOLDER/SCENARIO.PARTY.json, so that the ratios find what belongs together.

use strict;
use warnings;
use JSON::PP;

# What docs/design/performance.md asks of us, as a factor of Mosquitto's rate in the same run.
my %goal = ('qos1-50x20' => 3, 'qos1-50x1' => 1.5, 'qos1-1x20' => 1.5, 'qos0-50x20' => 2);

my $format = "%-13s %-16s %9s %8s %8s %8s %8s %8s %6s %7s %7s %7s\n";

sub load
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/;
	return decode_json(<$in>);
}

# Digits enough to compare, few enough to read.
sub short
{
	my ($value) = @_;

	return '-' unless defined $value;
	return sprintf($value >= 100 ? '%.0f' : $value >= 10 ? '%.1f' : '%.2f', $value);
}

sub print_head
{
	printf $format, 'scenario', 'server', 'msgs/s', 'p50 ms', 'p99', 'p99.9', 'max', 'us/msg', 'tool', 'xids/s', 'WAL B',
		'table B';
}

sub print_row
{
	my ($scenario, $party, $file, @pairs) = @_;
	my $r = load($file);

	for my $pair (@pairs)
	{
		my ($name, $value) = split(/=/, $pair, 2);
		$r->{$name} = $value eq '' ? undef : $value + 0;
	}
	open(my $out, '>', $file) or die "$file: $!\n";
	print $out JSON::PP->new->canonical->encode($r), "\n";
	close($out) or die "$file: $!\n";

	print_connections($scenario, $party, $r) if $scenario =~ /^(idle|storm|login)/;
	return if $scenario =~ /^(idle|storm)/;

	# With subscribers it is the way to them that counts.
	my $latency = $r->{subscribers} > 0 ? $r->{end_to_end_ms} : $r->{ack_ms};
	printf $format, $scenario, $party, sprintf('%.0f', $r->{rate}),
		(map { $latency->{count} > 0 ? short($latency->{$_}) : '-' } qw(p50 p99 p999 max)),
		@{$r->{processes}} ? short($r->{server_us_per_message}) : '-',
		sprintf('%.0f%%', 100 * $r->{tool_cpu_seconds} / $r->{publish_seconds}),
		short($r->{xids_per_second}), short($r->{wal_bytes_per_record}), short($r->{table_bytes_per_record});
	print_trouble($r);
}

sub print_connections
{
	my ($scenario, $party, $r) = @_;
	my $n = $r->{connections};
	my @memory = (0, 0, 0);

	for my $process (@{$r->{processes}})
	{
		# Shared memory that a process touches for the first time counts in RSS, but is no cost of a connection.
		$memory[$_] += $process->{anonymous}[$_] for 0 .. 2;
	}
	printf "%-13s %-16s %d connections in %.2f s (%.0f/s), CONNACK p50 %s p99 %s ms, %.0f us CPU each, memory %+.0f B each, "
		. "at the end %+.0f B; pings %d, answered %d\n", $scenario, $party, $n, $r->{connect_seconds},
		$n / $r->{connect_seconds}, short($r->{connack_ms}{p50}), short($r->{connack_ms}{p99}),
		1e6 * $r->{connect_cpu_seconds} / $n, ($memory[1] - $memory[0]) / $n, ($memory[2] - $memory[0]) / $n,
		$r->{pings}, $r->{pongs};
	printf "%-13s %-16s storm: all back in %s s\n", $scenario, $party, join(', ', map { short($_) } @{$r->{storm_seconds}})
		if @{$r->{storm_seconds}};
	print_trouble($r) if $scenario =~ /^(idle|storm)/;
}

sub print_trouble
{
	my ($r) = @_;
	my @said = map { "$_ $r->{$_}" }
		grep { $r->{$_} > 0 } qw(refused connect_failed lost subscribe_refused nacked unacked unsent protocol_errors);

	print "    ", join(', ', @said), "\n" if @said;
}

sub print_ratios
{
	my ($folder) = @_;

	for my $file (sort glob("$folder/*.mosquitto.json"))
	{
		my ($scenario) = $file =~ m{([^/]+)\.mosquitto\.json$};
		my $theirs = load($file);

		next unless $theirs->{rate} > 0 && !$theirs->{wanted_rate};
		for my $party ('fleetlog', 'fleetlog-budget')
		{
			next unless -e "$folder/$scenario.$party.json";
			my $ratio = load("$folder/$scenario.$party.json")->{rate} / $theirs->{rate};
			my $goal = $party eq 'fleetlog' ? $goal{$scenario} : undef;
			printf "%-13s %-16s %.2f x Mosquitto%s\n", $scenario, $party, $ratio,
				!$goal ? '' : sprintf(' (goal %.1f, %s)', $goal, $ratio >= $goal ? 'reached' : 'not reached');
		}
	}
}

my $what = shift(@ARGV) // '';
if ($what eq 'head') { print_head() }
elsif ($what eq 'row') { print_row(@ARGV) }
elsif ($what eq 'ratios') { print_ratios(@ARGV) }
else { die "usage: table.pl head|row|ratios ...\n" }
